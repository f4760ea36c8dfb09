/**
 * Dialogs and menus. On a phone a dialog is a sheet at the bottom that can be pulled down to close it.
 *
 * @module
 */

import { sessionPath, callApi, lineAddress } from "../api.js";
import { compactNumber } from "../ui/format.js";
import { h, iconButton, PATHS } from "../ui/elements.js";
import { openLayer } from "../ui/layers.js";
import { loadStylesheet } from "../ui/stylesheets.js";

await Promise.all(["/css/dialogs.css", "/css/fields.css"].map(loadStylesheet));

/**
 * Opens a dialog.
 *
 * @param {{ title: string, body: import("../ui/elements.js").Child[], foot?: import("../ui/elements.js").Child[], class?: string, unsaved?: () => boolean, address?: string }} parts
 *   `unsaved` tells whether something was entered that closing it by accident would lose; `address` is its
 *   name in `sheets.js`, with which a link or a reload opens it
 */
export function openDialog(parts) {
  const title = `sheet-${Math.random().toString(36).slice(2)}`;
  const dialog = h(
    "dialog",
    { class: parts.class, "aria-labelledby": title },
    h(
      "header",
      { class: "sheet-head" },
      h("h2", { id: title }, parts.title),
      iconButton("Close", PATHS.close, () => dialog.close()),
    ),
    h("div", { class: "sheet-body", tabindex: "0" }, ...parts.body),
    parts.foot && h("footer", { class: "sheet-foot" }, ...parts.foot),
  );
  return present(dialog, parts.unsaved, parts.address);
}

/**
 * Shows a dialog, and restores the focus when it closes. The back button closes it.
 *
 * @param {HTMLDialogElement} dialog
 * @param {() => boolean} [unsaved]
 * @param {string} [address]
 */
export function present(dialog, unsaved = () => false, address = "") {
  const before = document.activeElement;
  const goBack = (/** @type {boolean} */ forced) => {
    if (forced || !dialog.open || !unsaved()) return dialog.close();
    // It is asked above the dialog, which is about to get its entry in the history back.
    queueMicrotask(async () => {
      const text = "It has not been saved or sent.";
      if (await confirmAction("Discard what you entered?", text, "Discard")) dialog.close();
    });
    return false;
  };
  const closed = openLayer(goBack, address);
  dialog.addEventListener("close", () => {
    dialog.remove();
    closed();
    // The code that closed it may have moved the focus already.
    if (
      document.activeElement === document.body &&
      before instanceof HTMLElement &&
      before.isConnected
    )
      before.focus({ preventScroll: true });
  });
  dialog.addEventListener("click", (event) => {
    // A click on the backdrop has the dialog itself as its target, outside its box.
    if (event.target !== dialog) return;
    const box = dialog.getBoundingClientRect();
    const inside =
      event.clientX >= box.left &&
      event.clientX <= box.right &&
      event.clientY >= box.top &&
      event.clientY <= box.bottom;
    if (!inside && !unsaved()) dialog.close();
  });
  pullDown(dialog, unsaved);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** @param {HTMLDialogElement} dialog @param {() => boolean} unsaved */
function pullDown(dialog, unsaved) {
  let start = /** @type {number | undefined} */ (undefined);
  dialog.addEventListener(
    "touchstart",
    (event) => {
      const body = dialog.querySelector(".sheet-body");
      const inBody = event.target instanceof Node && body?.contains(event.target);
      start = inBody && body && body.scrollTop > 0 ? undefined : event.touches[0].clientY;
    },
    { passive: true },
  );
  dialog.addEventListener(
    "touchend",
    (event) => {
      const pulled = start !== undefined && event.changedTouches[0].clientY - start > 90;
      if (pulled && !unsaved()) dialog.close();
    },
    { passive: true },
  );
}

/**
 * Asks for confirmation.
 *
 * @param {string} title
 * @param {string} text
 * @param {string} action the label of the button
 * @returns {Promise<boolean>}
 */
export function confirmAction(title, text, action) {
  return new Promise((resolve) => {
    let yes = false;
    const dialog = openDialog({
      title,
      body: [h("p", {}, text)],
      foot: [
        h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel"),
        h(
          "button",
          {
            type: "button",
            class: "button danger",
            onclick: () => {
              yes = true;
              dialog.close();
            },
          },
          action,
        ),
      ],
    });
    dialog.addEventListener("close", () => resolve(yes));
  });
}

/** @param {string} address */
export function showImage(address) {
  openDialog({
    title: "Image",
    class: "image",
    body: [h("img", { src: address, alt: "Enlarged image" })],
  });
}

/**
 * Shows the journal's lines behind an item.
 *
 * @param {string} session
 * @param {import("../conversation/conversation.js").Item} item
 */
export async function showRaw(session, item) {
  const place = h("div", {}, h("p", {}, "…"));
  openDialog({ title: "Raw lines", class: "wide", body: [place] });
  try {
    const after = Math.max(0, item.first - 1);
    const { lines } = await callApi("GET", sessionPath(session, `/lines?after=${after}&limit=200`));
    const last = Math.max(item.rev, item.first);
    const own = lines.filter((/** @type {{ seq: number }} */ line) => line.seq <= last);
    const matching = own.filter((/** @type {import("../gateway.js").Line} */ line) =>
      concerns(line, item),
    );
    place.replaceChildren(
      ...(matching.length ? matching : own)
        .slice(0, 60)
        .map((/** @type {import("../gateway.js").Line} */ line) =>
          h(
            "div",
            {},
            h("h3", {}, `${line.seq} · ${line.origin}`),
            line.omitted
              ? h(
                  "p",
                  {},
                  h("a", { href: lineAddress(session, line.seq), target: "_blank" }, "Whole line"),
                  ` (${compactNumber(line.bytes ?? 0)} bytes)`,
                )
              : h("pre", { class: "raw-lines" }, pretty(line.line ?? line.base64 ?? "")),
          ),
        ),
    );
  } catch (problem) {
    place.replaceChildren(h("p", { class: "form-error" }, /** @type {Error} */ (problem).message));
  }
}

/**
 * Whether a line belongs to the item: it contains the item's id.
 *
 * @param {import("../gateway.js").Line} line
 * @param {import("../conversation/conversation.js").Item} item
 */
function concerns(line, item) {
  const name = item.id.slice(2).replace(/\.\d+$/, "");
  return (
    line.seq === item.first ||
    line.seq === item.rev ||
    (name.length > 6 && (line.line ?? "").includes(name))
  );
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
 * Opens a menu at a button.
 *
 * @param {HTMLElement} anchor
 * @param {{ name: string, about?: string, checked?: boolean, danger?: boolean, act: () => void }[]} choices
 * @param {string} label
 */
export function openMenu(anchor, choices, label) {
  const menu = h("div", { class: "popover", popover: "auto", role: "menu", "aria-label": label });
  for (const choice of choices) {
    const radio = choice.checked !== undefined;
    menu.append(
      h(
        "button",
        {
          type: "button",
          role: radio ? "menuitemradio" : "menuitem",
          "aria-checked": radio ? String(choice.checked) : undefined,
          class: choice.danger ? "danger" : undefined,
          onclick: () => {
            menu.hidePopover();
            closed();
            choice.act();
          },
        },
        choice.name,
        choice.about && h("small", {}, choice.about),
      ),
    );
  }
  document.body.append(menu);
  const closed = openLayer(() => menu.hidePopover());
  menu.addEventListener("toggle", (event) => {
    if (/** @type {ToggleEvent} */ (event).newState === "closed") {
      menu.remove();
      closed();
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
  menu.style.top =
    box.top > innerHeight / 2 ? `${Math.max(8, box.top - height - 6)}px` : `${box.bottom + 6}px`;
  /** @type {HTMLElement | null} */ (
    menu.querySelector("[aria-checked=true]") ?? menu.querySelector("button")
  )?.focus();
}
