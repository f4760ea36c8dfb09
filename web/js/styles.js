/**
 * Rules that only some pages need, fetched when they do.
 *
 * @module
 */

/** @type {Map<string, Promise<void>>} */
const known = new Map();

/**
 * Comes back when the rules hold.
 *
 * @param {string} path
 */
export function styled(path) {
  let coming = known.get(path);
  if (!coming) {
    coming = new Promise((resolve) => {
      const link = document.createElement("link");
      link.rel = "stylesheet";
      link.href = path;
      // Without its rules a page is ugly, but it works.
      link.onload = link.onerror = () => resolve();
      document.head.append(link);
    });
    known.set(path, coming);
  }
  return coming;
}
