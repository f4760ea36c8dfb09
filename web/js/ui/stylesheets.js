/**
 * Style sheets that only some views need, loaded on demand.
 *
 * @module
 */

/** @type {Map<string, Promise<void>>} */
const loaded = new Map();

/**
 * Resolves when the style sheet is loaded.
 *
 * @param {string} path
 */
export function loadStylesheet(path) {
  let loading = loaded.get(path);
  if (!loading) {
    loading = new Promise((resolve) => {
      const link = document.createElement("link");
      link.rel = "stylesheet";
      link.href = path;
      // Without its style sheet a view is ugly, but it works.
      link.onload = link.onerror = () => resolve();
      document.head.append(link);
    });
    loaded.set(path, loading);
  }
  return loading;
}
