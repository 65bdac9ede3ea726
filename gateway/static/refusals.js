/**
 * What the gateway says is English and for everybody; what a visitor can mend is said here in the
 * page's words: what is the matter, and what to do.
 */
import { text } from "./i18n.js";

/** By what the message contains; a number in it is told, too. */
const KNOWN = [
  [/no face found: what looks like one/, "photo.covered"],
  [/no face found/, "photo.no-face"],
  [/(\d+) faces of similar size/, "photo.several"],
  [/face is cut off/, "photo.cut"],
  [/ends too close to the face/, "photo.tight"],
  [/face is too small: (\d+) pixels.*?(\d+) are needed/, "photo.small"],
  [/head is turned/, "photo.turned"],
  [/mouth is covered/, "photo.covered"],
  [/eyes are shut/, "photo.eyes"],
  [/face is too dark/, "photo.dark"],
  [/upside down/, "photo.upside-down"],
  [/already an avatar/, "avatar.taken"],
  [/avatars, and \d+ are allowed/, "avatar.full"],
  [/not a picture|cannot be decoded|to decode|scans, allowed/, "avatar.broken"],
  [/photo: larger than|MB, allowed/, "avatar.too-large"],
  [/megapixels/, "photo.pixels"],
  [/session token (has expired|is none|was not signed)/, "error.link"],
  [/session: there is no/, "error.gone"],
  [/no replica is running/, "error.services"],
  [/no other one has come within/, "stage.gone"],
  [/^asr: its replica/, "stage.ears"],
  [/^(llm|tts|face): its replica/, "stage.back"],
];

/** @param {string} message of the gateway */
export function inPlainWords(message) {
  for (const [pattern, key] of KNOWN) {
    const found = pattern.exec(message);
    if (!found) continue;
    return found.slice(1).reduce((words, part, index) => words.replace(`{${index + 1}}`, part), text(key));
  }
  return message;
}

/** Why something was refused, or did not come. @param {import("./api.js").ApiError} error */
export function reasonOf(error) {
  return error.status === 0 ? text("error.unreachable") : inPlainWords(error.message);
}
