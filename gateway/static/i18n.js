/** The page's texts in the language chosen; markup names them by data-i18n attributes. */
import { ENGLISH } from "./texts_en.js";
import { CHINESE } from "./texts_zh.js";

const TEXTS = { en: ENGLISH, zh: CHINESE };

let current = "en";

/** Adds the texts of a part of the page that is loaded by itself. */
export function learn(texts) {
  for (const [language, more] of Object.entries(texts)) Object.assign(TEXTS[language], more);
}

/** The text named by key, in the language chosen; the fallback where there is none. */
export function text(key, fallback = key) {
  return TEXTS[current][key] ?? fallback;
}

/** Puts the page into a language: "en" or "zh". */
export function speak(language) {
  current = language in TEXTS ? language : "en";
  document.documentElement.lang = current === "zh" ? "zh-CN" : "en";
  document.title = text("title");
  translate(document);
}

/** Fills in data-i18n (content), data-i18n-label (accessible name, tooltip), data-i18n-placeholder. */
export function translate(root) {
  for (const node of root.querySelectorAll("[data-i18n]")) node.textContent = text(node.dataset.i18n);
  for (const node of root.querySelectorAll("[data-i18n-label]")) {
    node.setAttribute("aria-label", text(node.dataset.i18nLabel));
    node.title = text(node.dataset.i18nLabel);
  }
  for (const node of root.querySelectorAll("[data-i18n-placeholder]")) {
    node.placeholder = text(node.dataset.i18nPlaceholder);
  }
}

/** Names a control by a key, now and after every change of language. */
export function label(node, key) {
  node.dataset.i18nLabel = key;
  node.setAttribute("aria-label", text(key));
  node.title = text(key);
}
