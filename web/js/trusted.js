/**
 * The one door for markup: HTML that the server made and escaped becomes nodes here and nowhere
 * else. A browser that knows Trusted Types holds the rest of the page to that, because the server's
 * policy names this one and no other.
 *
 * @module
 */

/** The only script that is fetched by name and not imported. */
const WORKER = "/sw.js";

/** @type {{ createHTML(html: string): string, createScriptURL(address: string): string }} */
const own = {
  createHTML: (html) => html,
  createScriptURL: (address) => {
    if (address !== WORKER) throw new TypeError(`${address} is no script of this page`);
    return address;
  },
};

/** @type {typeof own} */
const policy = /** @type {any} */ (window).trustedTypes?.createPolicy("towpath", own) ?? own;

/**
 * The nodes of some HTML from the server.
 *
 * @param {string} html
 * @returns {DocumentFragment}
 */
export function nodes(html) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(html);
  return template.content;
}

/** Has the browser keep the page's shell, if it can. */
export function keepShell() {
  return navigator.serviceWorker.register(policy.createScriptURL(WORKER));
}
