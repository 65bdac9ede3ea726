/** Words in two scripts, each marked with its language: a screen reader changes its voice by it, a browser its font. */

const HAN = /\p{Script=Han}/gu;
const LATIN = /\p{Script=Latin}/gu;
/** A Chinese character says about as much as three letters. */
const HAN_LETTERS = 3;
/** In words of the other language. Of Latin letters two words at least: one is a name. */
const CHINESE = /(\p{Script=Han}[\p{Script=Han}，。、！？；：…]*)/u;
const ENGLISH = /(\p{Script=Latin}[\p{Script=Latin}\p{Nd}'’,;\-]* [\p{Script=Latin}\p{Nd}'’,;.!?\- ]*)/u;

/** Fills a node with words, whatever it held. */
export function write(node, words) {
  const [han, letters] = [HAN, LATIN].map((script) => words.match(script)?.length ?? 0);
  const chinese = HAN_LETTERS * han > letters;
  node.lang = chinese ? "zh-CN" : letters ? "en" : "";
  if (!node.lang) node.removeAttribute("lang");
  const [other, lang] = chinese ? [ENGLISH, "en"] : [CHINESE, "zh-CN"];
  // Every second one is what it was parted at.
  const parts = words.split(other).map((part, index) => (index % 2 ? passage(part, lang) : part));
  node.replaceChildren(...parts.filter(Boolean));
}

function passage(words, lang) {
  const node = document.createElement("span");
  node.lang = lang;
  node.textContent = words;
  return node;
}
