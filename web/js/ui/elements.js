/**
 * Creates elements. Text becomes text nodes and never markup. Markup from the server goes through
 * `trusted-html.js` only.
 *
 * @module
 */

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Creates an element. Properties that start with `on` are listeners, `true` is an empty
 * attribute, `false` and `undefined` are left out.
 *
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} [properties]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === false || value === null) continue;
    if (typeof value === "function")
      element.addEventListener(name.slice(2), /** @type {any} */ (value));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  appendChildren(element, children);
  return element;
}

/**
 * Adds children, except empty ones.
 *
 * @param {Element | DocumentFragment} parent
 * @param {Child[]} children
 */
function appendChildren(parent, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(typeof child === "number" ? String(child) : child);
  }
}

/**
 * Replaces the children of an element.
 *
 * @param {Element} parent
 * @param {...Child} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren();
  appendChildren(parent, children);
}

/**
 * An icon made of one path on a 20 by 20 grid.
 *
 * @param {string} path
 * @returns {SVGSVGElement}
 */
export function icon(path) {
  const svg = svgElement("svg", { viewBox: "0 0 20 20", class: "glyph", "aria-hidden": "true" });
  svg.append(svgElement("path", { d: path }));
  return svg;
}

/**
 * Creates an SVG element.
 *
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string | number>} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function svgElement(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  appendChildren(element, children);
  return element;
}

/** The paths of the icons. */
export const PATHS = {
  add: "M10 4v12M4 10h12",
  chevron: "M8 6l4 4-4 4",
  close: "M5 5l10 10M15 5L5 15",
  menu: "M3 6h14M3 10h14M3 14h14",
  search: "M13 13l4 4M9 14.5a5.5 5.5 0 1 1 0-11 5.5 5.5 0 0 1 0 11z",
  more: "M4 10h.01M10 10h.01M16 10h.01",
  send: "M10 16V4M5 9l5-5 5 5",
  stop: "M6 6h8v8H6z",
  down: "M10 4v12M5 11l5 5 5-5",
  up: "M10 16V4M5 9l5-5 5 5",
  edit: "M4 16l1-4 8-8 3 3-8 8z",
  gear: "M4 6h7M15 6h1M4 14h1M9 14h7M13 4v4M7 12v4",
  chart: "M4 16V9M10 16V4M16 16v-5",
  help: "M7.5 7.5a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .9-1 1.7M10 15h.01",
  picture: "M3 4h14v12H3zM3 14l4-4 4 4 2-2 4 4M13 7.5h.01",
  folder: "M3 5h5l2 2h7v9H3z",
  code: "M7 6l-4 4 4 4M13 6l4 4-4 4",
  back: "M4 8h8a4 4 0 0 1 0 8H7M4 8l4-4M4 8l4 4",
  side: "M3 4h14v12H3zM12 4v12",
  comment: "M3 4h14v9H9l-4 3v-3H3z",
  microphone:
    "M10 3a2.5 2.5 0 0 0-2.5 2.5v4a2.5 2.5 0 0 0 5 0v-4A2.5 2.5 0 0 0 10 3zM5 9.5a5 5 0 0 0 10 0M10 14.5V17",
  copy: "M7 7V4h9v9h-3M4 7h9v9H4z",
  link: "M8 12l4-4M9 6l2-2a3.5 3.5 0 0 1 5 5l-2 2M11 14l-2 2a3.5 3.5 0 0 1-5-5l2-2",
};

/**
 * A button with an icon, and a label for screen readers.
 *
 * @param {string} label
 * @param {string} path
 * @param {(event: MouseEvent) => void} press
 * @param {Record<string, unknown>} [properties]
 */
export function iconButton(label, path, press, properties = {}) {
  return h(
    "button",
    {
      type: "button",
      class: "icon-button",
      "aria-label": label,
      title: label,
      onclick: press,
      ...properties,
    },
    icon(path),
  );
}
