/**
 * The one door for markup: HTML that the server made and escaped becomes nodes here and nowhere
 * else. A browser that knows Trusted Types holds the rest of the page to that.
 *
 * @module
 */

/** @type {{ createHTML(html: string): string }} */
const policy = /** @type {any} */ (window).trustedTypes?.createPolicy("towpath", { createHTML: (/** @type {string} */ html) => html })
  ?? { createHTML: (html) => html };

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
