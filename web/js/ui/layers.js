/**
 * What lies above the page: the drawer, menus, dialogs. Each has an entry in the browser's history, so
 * *Back* closes the topmost one and changes nothing below it. Some have an address, `#…?sheet=NAME`, with
 * which a link or a reload opens them.
 *
 * Entries are numbered, so that it is known whether the user goes back or forward.
 *
 * @module
 */

/**
 * Closes a layer. Returns `false` if it must stay open, which it may not if that is forced.
 *
 * @typedef {(forced: boolean) => boolean | void} CloseLayer
 */

/** `index` is the number of its entry. @typedef {{ close: CloseLayer, sheet: string, index: number, open: boolean }} Layer */

/** The lowest first. A closed one stays in it until its entry is removed. @type {Layer[]} */
const layers = [];
/** Layers that are open but have no entry yet, because the browser is going back. @type {Layer[]} */
const unplaced = [];
/** Entries of layers that were closed when the user went elsewhere. @type {Set<number>} */
const abandoned = new Set();
/** How long the browser may take to go back, in milliseconds. */
const TRAVERSAL_TIMEOUT = 1000;

let index = Number(history.state?.index ?? 0);
/** @type {number | undefined} */
let traversal;
/** @type {number | undefined} */
let settling;
/** Where to go when the browser has gone back. @type {string | undefined} */
let destination;

// The page decides itself where it is scrolled to: the conversation may have grown since.
history.scrollRestoration = "manual";
history.replaceState({ ...history.state, index }, "");
addEventListener("popstate", arrived);
document.addEventListener("click", followLink);

/** The address without what lies above it, and the name of that. */
export function currentAddress() {
  const [, base, sheet = ""] = /^(.*?)(?:\?sheet=([^?]*))?$/s.exec(location.hash) ?? ["", ""];
  return { base, sheet: abandoned.has(index) ? "" : sheet };
}

/**
 * Adds a layer. Returns a function to call when it was closed in another way than with *Back*.
 *
 * @param {CloseLayer} close
 * @param {string} [sheet] its name in the address
 */
export function openLayer(close, sheet = "") {
  /** @type {Layer} */
  const layer = { close, sheet, index: -1, open: true };
  if (traversal === undefined) place(layer);
  else unplaced.push(layer);
  return () => {
    if (!layer.open) return;
    layer.open = false;
    clearTimeout(settling);
    settling = setTimeout(settle);
  };
}

/** Whether a layer with this address is open. @param {string} sheet */
export function isSheetOpen(sheet) {
  return [...layers, ...unplaced].some((it) => it.open && it.sheet === sheet);
}

/** Goes to another address. What lies above the page closes. @param {string} address */
export function navigate(address) {
  if (traversal !== undefined) {
    // Going back would undo it.
    destination = address;
    return;
  }
  if (!history.state?.layer) {
    location.hash = address;
    return;
  }
  if (currentAddress().base === address) {
    for (const layer of [...layers].reverse()) if (layer.open) layer.close(true);
    return;
  }
  // The entry of the topmost layer becomes that of the new address.
  leaveLayers();
  abandoned.delete(index);
  history.replaceState({ index }, "", address);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Replaces the address, as a redirection does. @param {string} address */
export function replaceAddress(address) {
  history.replaceState(history.state, "", address);
}

/** Gives a layer an entry in the history. @param {Layer} layer */
function place(layer) {
  const { base, sheet } = currentAddress();
  const address = layer.sheet ? `${base || "#/"}?sheet=${layer.sheet}` : location.hash || "#/";
  const top = layers.at(-1);
  if (top && !top.open && top.index === index) {
    // A menu that opens a dialog leaves its entry to it.
    layers.pop();
    history.replaceState({ index, layer: true }, "", layer.sheet ? address : base || "#/");
  } else if (layer.sheet && sheet === layer.sheet && history.state?.layer) {
    // After a reload, or going forward, its entry is there already.
  } else {
    // Closing what a link opened leads to what is below it.
    if (sheet && sheet === layer.sheet) history.replaceState({ index }, "", base || "#/");
    index += 1;
    history.pushState({ index, layer: true }, "", address);
  }
  abandoned.delete(index);
  layer.index = index;
  layers.push(layer);
}

/** Removes the entries of layers that were closed. */
function settle() {
  if (traversal !== undefined) return;
  let steps = 0;
  for (let top = layers.at(-1); top && !top.open; top = layers.at(-1)) {
    layers.pop();
    if (top.index === index - steps) steps += 1;
    else abandoned.add(top.index);
  }
  for (const layer of unplaced.splice(0)) if (layer.open) place(layer);
  if (!steps) return;
  traversal = setTimeout(traversed, TRAVERSAL_TIMEOUT);
  history.go(-steps);
}

function traversed() {
  clearTimeout(traversal);
  traversal = undefined;
  settle();
  if (traversal !== undefined || destination === undefined) return;
  const address = destination;
  destination = undefined;
  navigate(address);
}

/** The browser shows another entry. */
function arrived() {
  const { state } = history;
  if (typeof state?.index !== "number") {
    // A link was followed, or the user entered an address.
    leaveLayers();
    index += 1;
    history.replaceState({ index }, "");
    return;
  }
  const isBack = state.index < index;
  index = state.index;
  for (let top = layers.at(-1); top && top.index > index; top = layers.at(-1)) {
    layers.pop();
    if (!top.open) continue;
    top.open = false;
    if (top.close(false) !== false) continue;
    top.open = true;
    place(top);
    break;
  }
  if (traversal !== undefined) {
    traversed();
    return;
  }
  // What was closed without its entry being removed is passed over.
  const isLeft = !currentAddress().sheet && !layers.some((it) => it.index === index);
  if (isBack && state.layer && isLeft) history.back();
}

/** Closes all layers; their entries stay behind. */
function leaveLayers() {
  for (const layer of layers.splice(0).reverse()) {
    abandoned.add(layer.index);
    if (!layer.open) continue;
    layer.open = false;
    layer.close(true);
  }
}

/** A link of the page that is followed in a layer takes its place. @param {MouseEvent} event */
function followLink(event) {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  const address = link?.getAttribute("href");
  const plain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey);
  if (!address?.startsWith("#/") || link?.target || !plain || event.defaultPrevented) return;
  if (!history.state?.layer && traversal === undefined) return;
  event.preventDefault();
  navigate(address);
}
