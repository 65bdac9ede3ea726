/** The visitor's own files, a head and a background: kept in this browser, sent nowhere. */

const NAME = "visavis.own-files";
const FILES = "files";

function opened() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(FILES);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function ask(mode, act) {
  const database = await opened();
  try {
    return await new Promise((resolve, reject) => {
      const request = act(database.transaction(FILES, mode).objectStore(FILES));
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
  } finally {
    database.close();
  }
}

/** @returns {Promise<Blob | null>} */
export async function kept(name) {
  try {
    const found = await ask("readonly", (files) => files.get(name));
    return found ? new Blob([found.bytes], { type: found.type }) : null;
  } catch {
    return null; // a private window may have no store: then nothing is kept
  }
}

/** As plain bytes: not every browser keeps a file itself in a private window. */
export async function keep(name, file) {
  try {
    const content = { type: file.type, bytes: await file.arrayBuffer() };
    await ask("readwrite", (files) => files.put(content, name));
  } catch (error) {
    console.warn("visavis: the file is not kept in this browser:", error);
  }
}
