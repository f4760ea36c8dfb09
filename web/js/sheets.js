/**
 * Dialogs: centred on a desk, sheets from below on a phone, where pulling one down closes it.
 *
 * @module
 */

import { at, ask } from "./api.js";
import { h, iconButton, PATHS } from "./elements.js";
import { styled } from "./styles.js";

await styled("/css/sheets.css");

/**
 * Opens a dialog.
 *
 * @param {{ title: string, body: import("./elements.js").Child[], foot?: import("./elements.js").Child[], class?: string }} parts
 */
export function openSheet(parts) {
  const title = `sheet-${Math.random().toString(36).slice(2)}`;
  const dialog = h("dialog", { class: parts.class, "aria-labelledby": title },
    h("header", { class: "sheet-head" }, h("h2", { id: title }, parts.title), iconButton("Close", PATHS.close, () => dialog.close())),
    h("div", { class: "sheet-body", tabindex: "0" }, ...parts.body),
    parts.foot && h("footer", { class: "sheet-foot" }, ...parts.foot));
  return present(dialog);
}

/**
 * Shows a dialog and forgets it when it closes; the focus goes back to where it was.
 *
 * @param {HTMLDialogElement} dialog
 */
export function present(dialog) {
  const before = document.activeElement;
  dialog.addEventListener("close", () => {
    dialog.remove();
    // Whoever closed it may have put the focus somewhere already.
    if (document.activeElement === document.body && before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
  });
  dialog.addEventListener("click", (event) => {
    // A click on the backdrop has the dialog itself as its target, outside its box.
    if (event.target !== dialog) return;
    const box = dialog.getBoundingClientRect();
    const inside = event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
    if (!inside) dialog.close();
  });
  pullDown(dialog);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** @param {HTMLDialogElement} dialog */
function pullDown(dialog) {
  let start = /** @type {number | undefined} */ (undefined);
  dialog.addEventListener("touchstart", (event) => {
    const body = dialog.querySelector(".sheet-body");
    const inBody = event.target instanceof Node && body?.contains(event.target);
    start = inBody && body && body.scrollTop > 0 ? undefined : event.touches[0].clientY;
  }, { passive: true });
  dialog.addEventListener("touchend", (event) => {
    if (start !== undefined && event.changedTouches[0].clientY - start > 90) dialog.close();
  }, { passive: true });
}

/**
 * Asks before something that cannot be undone.
 *
 * @param {string} title
 * @param {string} text
 * @param {string} word
 * @returns {Promise<boolean>}
 */
export function confirmed(title, text, word) {
  return new Promise((resolve) => {
    let yes = false;
    const dialog = openSheet({
      title,
      body: [h("p", {}, text)],
      foot: [
        h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Leave it"),
        h("button", { type: "button", class: "button bad", onclick: () => { yes = true; dialog.close(); } }, word),
      ],
    });
    dialog.addEventListener("close", () => resolve(yes));
  });
}

/** @param {string} address */
export function showPicture(address) {
  openSheet({ title: "Picture", class: "picture", body: [h("img", { src: address, alt: "The picture, large" })] });
}

/**
 * The journal's lines behind an item, as they are.
 *
 * @param {string} session
 * @param {import("./gateway.js").Item} item
 */
export async function showRaw(session, item) {
  const place = h("div", {}, h("p", {}, "…"));
  openSheet({ title: "Raw lines", class: "wide", body: [place] });
  try {
    const after = Math.max(0, item.first - 1);
    const { lines } = await ask("GET", at(session, `/lines?after=${after}&limit=200`));
    const last = Math.max(item.rev, item.first);
    const own = lines.filter((/** @type {{ seq: number }} */ line) => line.seq <= last);
    const told = own.filter((/** @type {any} */ line) => about(line, item));
    place.replaceChildren(...(told.length ? told : own).slice(0, 60).map((/** @type {any} */ line) =>
      h("div", {}, h("h3", {}, `${line.seq} · ${line.origin}`), h("pre", { class: "raw-lines" }, pretty(line.line ?? line.base64 ?? "")))));
  } catch (problem) {
    place.replaceChildren(h("p", { class: "complaint" }, /** @type {Error} */ (problem).message));
  }
}

/** Whether a line tells of the item: it holds the id that the item is named by. @param {{ seq: number, line?: string }} line @param {import("./gateway.js").Item} item */
function about(line, item) {
  const name = item.id.slice(2).replace(/\.\d+$/, "");
  return line.seq === item.first || line.seq === item.rev || (name.length > 6 && (line.line ?? "").includes(name));
}

/** @param {string} line */
function pretty(line) {
  try {
    return JSON.stringify(JSON.parse(line), null, 2);
  } catch {
    return line;
  }
}

/**
 * A small menu at a button.
 *
 * @param {HTMLElement} anchor
 * @param {{ name: string, about?: string, checked?: boolean, bad?: boolean, act: () => void }[]} choices
 * @param {string} label
 */
export function openMenu(anchor, choices, label) {
  const menu = h("div", { class: "popover", popover: "auto", role: "menu", "aria-label": label });
  for (const choice of choices) {
    const radio = choice.checked !== undefined;
    menu.append(h("button", { type: "button", role: radio ? "menuitemradio" : "menuitem", "aria-checked": radio ? String(choice.checked) : undefined, class: choice.bad ? "bad" : undefined,
      onclick: () => { menu.hidePopover(); choice.act(); } }, choice.name, choice.about && h("small", {}, choice.about)));
  }
  document.body.append(menu);
  menu.addEventListener("toggle", (event) => {
    if (/** @type {ToggleEvent} */ (event).newState === "closed") {
      menu.remove();
      anchor.focus({ preventScroll: true });
    }
  });
  menu.addEventListener("keydown", (event) => {
    const all = [...menu.querySelectorAll("button")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const here = all.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    all[(here + step + all.length) % all.length]?.focus();
  });
  menu.showPopover();
  const box = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = menu;
  menu.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
  menu.style.top = box.top > innerHeight / 2 ? `${Math.max(8, box.top - height - 6)}px` : `${box.bottom + 6}px`;
  /** @type {HTMLElement | null} */ (menu.querySelector("[aria-checked=true]") ?? menu.querySelector("button"))?.focus();
}
