/**
 * Keys that on-screen keyboards lack.
 *
 * @module
 */

import { h } from "../ui/elements.js";

/** @typedef {import("./input.js").TerminalInput} TerminalInput */

/** Labels, names for screen readers, and keys. Those of the second kind make room for the on-screen keyboard. */
const KEYS = /** @type {const} */ ([
  ["Esc", "Escape", "Escape", ""],
  ["Tab", "Tab", "Tab", ""],
  ["Ctrl", "Control, for the next key", "ctrl", ""],
  ["Alt", "Alt, for the next key", "alt", ""],
  ["|", "Vertical bar", "|", "second"],
  ["/", "Slash", "/", "second"],
  ["~", "Tilde", "~", "second"],
  ["Paste", "Paste", "paste", "second"],
  ["PgUp", "Page up", "PageUp", "second"],
  ["PgDn", "Page down", "PageDown", "second"],
  ["←", "Left", "ArrowLeft", ""],
  ["↓", "Down", "ArrowDown", ""],
  ["↑", "Up", "ArrowUp", ""],
  ["→", "Right", "ArrowRight", ""],
]);

export class KeyRow {
  /** @param {() => TerminalInput | undefined} input */
  constructor(input) {
    this.input = input;
    this.buttons = KEYS.map(([label, name, key, kind]) =>
      h(
        "button",
        {
          type: "button",
          class: kind || undefined,
          "aria-label": name,
          "aria-pressed": key === "ctrl" || key === "alt" ? "false" : undefined,
          // The field keeps the focus, so that the on-screen keyboard stays.
          onpointerdown: (/** @type {Event} */ event) => event.preventDefault(),
          onclick: () => this.#press(key),
        },
        label,
      ),
    );
    this.element = h(
      "div",
      { class: "terminal-keys", role: "toolbar", "aria-label": "Keys" },
      ...this.buttons,
    );
  }

  /** Shows which keys are held. */
  show() {
    const held = this.input()?.held;
    KEYS.forEach(([, , key], n) => {
      if (key === "ctrl" || key === "alt")
        this.buttons[n].setAttribute("aria-pressed", String(held?.[key] ?? false));
    });
  }

  /** @param {(typeof KEYS)[number][2]} key */
  #press(key) {
    const input = this.input();
    if (!input) return;
    if (key === "ctrl" || key === "alt") {
      input.held[key] = !input.held[key];
      this.show();
    } else if (key === "paste") void pasteFromClipboard(input);
    else input.press({ key, ctrl: false, alt: false, shift: false });
    input.focus();
  }
}

/** Browsers give the clipboard only to pages of a secure origin, and only if the user agrees. @param {TerminalInput} input */
async function pasteFromClipboard(input) {
  const text = await navigator.clipboard?.readText?.().catch(() => undefined);
  if (text !== undefined) {
    await input.paste(text);
    return;
  }
  const { openDialog } = await import("../dialogs/dialogs.js");
  const field = h("textarea", { class: "input", rows: "5", "aria-label": "Text to paste" });
  const dialog = openDialog({
    title: "Paste",
    body: [
      h(
        "p",
        { class: "help-text" },
        "This browser does not share its clipboard. Paste here first.",
      ),
      field,
    ],
    foot: [
      h(
        "button",
        {
          type: "button",
          class: "button primary",
          onclick: () => {
            dialog.close();
            void input.paste(field.value);
          },
        },
        "Paste into the terminal",
      ),
    ],
  });
  field.focus();
}
