/** The choices for a face that is drawn here: who draws it, camera, background, whose head. */
import { ApiError } from "../api.js";
import { text, translate } from "../i18n.js";
import { reasonOf } from "../refusals.js";
import "./words.js";

const VIEWS = ["portrait", "close", "wide"];
const BACKGROUNDS = ["soft", "dark", "light", "own"];
const HEADS = ["avatar", "own"];

function element(tag, { children = [], ...given } = {}) {
  const node = Object.assign(document.createElement(tag), given);
  node.append(...children);
  return node;
}

function said(tag, key, given = {}) {
  const node = element(tag, given);
  node.dataset.i18n = key;
  return node;
}

export class DrawingChoices {
  /**
   * @param {(name: string, value: string, file?: File) => void} onChange after the choice has been
   *   kept; file: the visitor's own, which has not
   */
  constructor(section, preferences, onChange) {
    this.section = section;
    this.preferences = preferences;
    this.onChange = onChange;
    const title = said("h3", "head.title", { id: "drawing-title" });
    const details = element("div", {
      className: "drawing",
      children: [
        this.#select("headView", "head.view", VIEWS),
        this.#select("headBackground", "head.background", BACKGROUNDS),
        this.#select("headFile", "head.whose", HEADS),
        said("p", "head.own.note", { className: "aside" }),
        this.#fullScreen(),
        said("p", "head.drag", { className: "aside" }),
      ],
    });
    section.append(title, this.#segments(), said("p", "head.hint", { className: "aside" }), details);
    translate(section);
    this.show();
  }

  /** As the preferences are now. */
  show() {
    this.section.dataset.drawnBy = this.preferences.get("drawnBy");
    for (const radio of this.section.querySelectorAll("[name=drawnBy]")) {
      radio.checked = radio.value === this.preferences.get("drawnBy");
    }
    for (const select of this.section.querySelectorAll("select")) {
      select.value = this.preferences.get(select.name);
      const another = select.parentElement.querySelector("button");
      if (another) another.hidden = select.value !== "own";
    }
  }

  #change(name, value, file) {
    this.preferences.set(name, value);
    this.show();
    this.onChange(name, value, file);
  }

  #segments() {
    const options = ["server", "client"].map((value) => {
      const radio = element("input", { type: "radio", name: "drawnBy", value });
      // One that is chosen already is tried again: it may not have come the first time.
      radio.addEventListener("click", () => this.#change("drawnBy", value));
      return element("label", { children: [radio, said("span", `head.${value}`)] });
    });
    const group = element("fieldset", { className: "segments wide", children: options });
    group.setAttribute("aria-labelledby", "drawing-title");
    return group;
  }

  #select(name, key, values) {
    const options = values.map((value) => said("option", `${key}.${value}`, { value }));
    const select = element("select", { id: `drawing-${name}`, name, children: options });
    const label = said("label", key, { htmlFor: select.id });
    select.addEventListener("change", () => {
      if (select.value === "own") this.#own(name);
      else this.#change(name, select.value);
    });
    const children = [label, select];
    if (values.includes("own")) {
      const another = said("button", "head.another", { type: "button", className: "quiet" });
      another.addEventListener("click", () => this.#own(name));
      children.push(another);
    }
    return element("div", { className: "field row", children });
  }

  /** A file of the visitor's own. What was chosen stays where none is given. */
  #own(name) {
    const accept = name === "headFile" ? ".glb,.vrm,model/gltf-binary" : "image/jpeg,image/png,image/webp";
    const input = element("input", { type: "file", accept });
    input.addEventListener("cancel", () => this.show());
    input.addEventListener("change", () => {
      const [file] = input.files;
      if (file) this.#change(name, "own", file);
      else this.show();
    });
    input.click();
  }

  #fullScreen() {
    const button = said("button", "head.screen", { type: "button", className: "secondary screen" });
    button.hidden = !document.fullscreenEnabled;
    button.addEventListener("click", () => {
      document.querySelector("#settings").close();
      void document.querySelector(".frame").requestFullscreen();
    });
    return button;
  }
}

/** What a fault of a head says to the visitor. */
export function told(error) {
  if (error instanceof ApiError) return reasonOf(error);
  return text(error.message, text("head.unfit.file"));
}
