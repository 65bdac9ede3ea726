/**
 * The conversation of this tab: kept while the page is loaded again, forgotten with the tab; and
 * saved as a file where somebody wants to have it.
 */
import { text } from "./i18n.js";
import { tabStore } from "./stores.js";

const STORE = "visavis.conversation";

/** @returns {{session: string, lines: object[], microphone: boolean, recordedSince_ms: number} | null} */
export function remembered() {
  try {
    const { session, lines, microphone, recordedSince_ms } = JSON.parse(tabStore.get(STORE)) ?? {};
    if (typeof session !== "string" || !Array.isArray(lines)) return null;
    return { session, lines, microphone: microphone === true, recordedSince_ms: Number(recordedSince_ms) || 0 };
  } catch {
    return null;
  }
}

/** @param {{session: string, lines: object[], microphone: boolean, recordedSince_ms: number}} conversation */
export function remember(conversation) {
  tabStore.set(STORE, JSON.stringify(conversation));
}

export function forget() {
  tabStore.remove(STORE);
}

/** What was said as plain text: of an answer that was interrupted, what was heard of it. */
export function transcriptOf(lines, at = new Date()) {
  const said = lines.map(({ side, words, speaker, ended, heard }) => {
    if (side === "note") return `(${words})`;
    if (side === "shown") return words.trimEnd();
    const who = side === "visitor" ? text("transcript.you") : speaker || text("transcript.avatar");
    return `${who}: ${heard ?? words}${ended === "interrupted" ? " —" : ""}`;
  });
  return [`visavis, ${at.toLocaleString(document.documentElement.lang)}`, ...said].join("\n\n") + "\n";
}

/** @param {Blob} content */
export function download(content, name) {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The download has its own hold on the file once it has begun.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** "visavis-2026-01-31T09-30-00.mp4", as the visitor's clock has it. */
export function fileName(ending, at = new Date()) {
  const shown = new Date(at.getTime() - 60_000 * at.getTimezoneOffset());
  return `visavis-${shown.toISOString().slice(0, 19).replaceAll(":", "-")}.${ending}`;
}
