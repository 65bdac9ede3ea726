/** Texts with something to be filled in. */
import { text } from "../i18n.js";

/** The text named by key, {name} replaced by what `values` has under it. */
export function filled(key, values) {
  return text(key).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}
