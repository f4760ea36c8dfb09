/**
 * Images of messages that the server does not have yet. They are too large for the browser's local
 * storage, so they are in a database of the browser; a draft has their keys.
 *
 * @module
 */

import { draftImageKeys } from "../preferences.js";

/** @typedef {import("./images.js").ImageAttachment} ImageAttachment */

const STORE = "images";

/** Used by browsers that forbid storage. @type {Map<string, ImageAttachment>} */
const unstored = new Map();

/** @type {Promise<IDBDatabase | undefined> | undefined} */
let opened;

function database() {
  opened ??= new Promise((resolve) => {
    try {
      const request = indexedDB.open("towpath", 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE);
      request.onsuccess = () => resolve(request.result);
      request.onerror = request.onblocked = () => resolve(undefined);
    } catch {
      resolve(undefined);
    }
  });
  return opened;
}

/**
 * Performs a request. Returns nothing if the browser refuses it.
 *
 * @template T
 * @param {IDBTransactionMode} mode
 * @param {(store: IDBObjectStore) => IDBRequest<T>} ask
 * @returns {Promise<T | undefined>}
 */
async function perform(mode, ask) {
  const images = await database();
  return new Promise((resolve) => {
    try {
      const transaction = images?.transaction(STORE, mode);
      if (!transaction) return resolve(undefined);
      const request = ask(transaction.objectStore(STORE));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = () => resolve(undefined);
    } catch {
      resolve(undefined);
    }
  });
}

/** @param {ImageAttachment} image */
export async function storeImage(image) {
  unstored.set(image.key, image);
  if ((await perform("readwrite", (store) => store.put(image, image.key))) !== undefined)
    unstored.delete(image.key);
}

/** Those that are still stored. @param {string[]} keys */
export async function storedImages(keys) {
  const found = await Promise.all(
    keys.map(
      async (key) => unstored.get(key) ?? (await perform("readonly", (store) => store.get(key))),
    ),
  );
  return /** @type {ImageAttachment[]} */ (found.filter((it) => it !== undefined));
}

/** Removes all images that no draft refers to. A draft names its images before they are stored. */
export async function removeUnusedImages() {
  const keys = (await perform("readonly", (store) => store.getAllKeys())) ?? [];
  const used = draftImageKeys();
  for (const key of [...keys, ...unstored.keys()].map(String)) {
    if (used.has(key)) continue;
    unstored.delete(key);
    await perform("readwrite", (store) => store.delete(key));
  }
}
