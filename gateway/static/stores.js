/**
 * What the browser keeps for the page, in this tab or beyond it. Where it keeps nothing, because the
 * visitor blocks the data of sites or there is no room, all holds for as long as the page is open.
 */
class Store {
  #open;
  #unkept = new Map();

  /** @param {() => Storage} open where data of sites is blocked even to name a store throws */
  constructor(open) {
    this.#open = open;
  }

  get(name) {
    return this.#unkept.get(name) ?? this.#try((store) => store.getItem(name)) ?? null;
  }

  set(name, value) {
    this.remove(name); // no room for it: better none than an old one
    if (this.#try((store) => (store.setItem(name, value), true)) !== true) this.#unkept.set(name, value);
  }

  remove(name) {
    this.#unkept.delete(name);
    this.#try((store) => store.removeItem(name));
  }

  #try(use) {
    try {
      return use(this.#open());
    } catch {
      return undefined;
    }
  }
}

export const tabStore = new Store(() => sessionStorage);
export const lastingStore = new Store(() => localStorage);
