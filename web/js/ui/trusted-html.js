/**
 * The only place where a string becomes markup: HTML that the server rendered and escaped. Browsers
 * with Trusted Types enforce that, because the server's policy names only this one.
 *
 * @module
 */

/** The only script that is not imported. */
const WORKER = "/sw.js";

/** @type {{ createHTML(html: string): string, createScriptURL(address: string): string }} */
const rules = {
  createHTML: (html) => html,
  createScriptURL: (address) => {
    if (address !== WORKER) throw new TypeError(`${address} is not a script of this page`);
    return address;
  },
};

/** @type {typeof rules} */
const policy = /** @type {any} */ (window).trustedTypes?.createPolicy("towpath", rules) ?? rules;

/**
 * Parses HTML of the server.
 *
 * @param {string} html
 * @returns {DocumentFragment}
 */
export function htmlNodes(html) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(html);
  return template.content;
}

/** Registers the service worker, which caches the page itself. */
export function registerServiceWorker() {
  return navigator.serviceWorker.register(policy.createScriptURL(WORKER));
}
