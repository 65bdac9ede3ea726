/** Texts with something to be filled in, and what is written to be said. */
import { text } from "../i18n.js";

/** The text named by key, {name} replaced by what `values` has under it. */
export function filled(key, values) {
  return text(key).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

/**
 * Sends what a field holds. The field is free at once: nothing is sent twice, and the next line may
 * be written. What is refused comes back into it.
 */
export async function sendLine(field, send) {
  const words = field.value;
  field.value = "";
  try {
    await send(words);
  } catch (error) {
    field.value ||= words;
    throw error;
  }
}
