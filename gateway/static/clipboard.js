/**
 * Copies what may still be asked for. Some browsers let a page copy only within the click: they are given
 * the promise then. Throws where there is no clipboard, as without https, or nothing comes.
 * @param {string | Promise<string>} coming
 */
export async function copy(coming) {
  if (!window.ClipboardItem) return navigator.clipboard.writeText(await coming);
  const plain = async () => new Blob([await coming], { type: "text/plain" });
  return navigator.clipboard.write([new ClipboardItem({ "text/plain": plain() })]);
}
