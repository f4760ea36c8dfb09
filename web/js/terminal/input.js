/**
 * What is typed, pasted and clicked in a terminal.
 *
 * A field takes the input, because on-screen keyboards and input methods need one. It always has one
 * character, so that they report a deletion.
 *
 * @module
 */

import { h } from "../ui/elements.js";
import { keySequence, mouseSequence, pasteSequence } from "./keys.js";

/** @typedef {import("./screen.js").TerminalScreen} TerminalScreen */

/** What is in the field when nothing is being composed. */
const FILLER = " ";

/** How many characters are sent at a time. */
const PIECE = 8192;

/** How many lines a turn of the wheel moves in a program that uses the whole screen. */
const WHEEL_LINES = 3;

export class TerminalInput {
  /** @param {TerminalScreen} screen @param {(text: string) => void} send @param {() => void} modifiersChanged */
  constructor(screen, send, modifiersChanged) {
    this.screen = screen;
    this.send = (/** @type {string} */ text) => {
      // The screen moves to what was typed.
      screen.toEnd();
      for (let at = 0; at < text.length; at += PIECE) send(text.slice(at, at + PIECE));
    };
    this.modifiersChanged = modifiersChanged;
    /** Keys of the row for phones, for the next character. */
    this.held = { ctrl: false, alt: false };
    /** Whether Tab leaves the terminal. */
    this.tabLeaves = false;
    this.pressed = -1;
    /** The cell that the mouse is on. */
    this.cell = "";
    this.field = h("textarea", {
      class: "terminal-input",
      "aria-label": "Type in the terminal. Control M: the Tab key leaves the terminal",
      autocapitalize: "off",
      autocomplete: "off",
      autocorrect: "off",
      spellcheck: "false",
      enterkeyhint: "enter",
      rows: "1",
    });
    this.#reset();
    screen.place.append(this.field);
    const { element } = screen;
    const listen = (/** @type {string} */ name, /** @type {(event: any) => void} */ handle) =>
      element.addEventListener(name, handle, { passive: false });
    listen("keydown", (event) => this.#key(event));
    listen("beforeinput", (event) => this.#beforeInput(event));
    listen("compositionstart", () => this.field.classList.add("composing"));
    listen("compositionend", (event) => {
      this.field.classList.remove("composing");
      if (event.data) this.#type(event.data);
      this.#reset();
    });
    listen("input", (event) => {
      if (!event.isComposing) this.#reset();
    });
    listen("paste", (event) => {
      event.preventDefault();
      void this.paste(event.clipboardData?.getData("text/plain") ?? "");
    });
    listen("mousedown", (event) => this.#mouse(event, true));
    listen("mouseup", (event) => this.#mouse(event, false));
    listen("mousemove", (event) => this.#move(event));
    listen("wheel", (event) => this.#wheel(event));
    listen("click", () => {
      if (!screen.selectedText()) this.focus();
    });
  }

  focus() {
    this.field.focus({ preventScroll: true });
  }

  #reset() {
    this.field.value = FILLER;
    this.field.setSelectionRange(1, 1);
  }

  /** A key of the row for phones, or of a keyboard. @param {import("./keys.js").Key} key */
  press(key) {
    const { ctrl, alt } = this.held;
    const held = { ...key, ctrl: key.ctrl || ctrl, alt: key.alt || alt };
    const sequence = keySequence(held, this.screen.state?.application_cursor ?? false);
    if (sequence === undefined) return false;
    this.#release();
    this.send(sequence);
    return true;
  }

  #release() {
    if (!this.held.ctrl && !this.held.alt) return;
    this.held = { ctrl: false, alt: false };
    this.modifiersChanged();
  }

  /** @param {string} text */
  #type(text) {
    if ([...text].length === 1) this.press({ key: text, ctrl: false, alt: false, shift: false });
    else this.send(text.replaceAll("\n", "\r"));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    // The page's own shortcuts are for elsewhere.
    if (!event.metaKey) event.stopPropagation();
    if (event.isComposing || event.metaKey || event.key === "Process") return;
    const { key, ctrlKey, altKey, shiftKey } = event;
    const letter = key.toLowerCase();
    if (ctrlKey && letter === "m" && !altKey && !shiftKey) {
      event.preventDefault();
      this.tabLeaves = !this.tabLeaves;
      this.modifiersChanged();
      return;
    }
    if (key === "Tab" && this.tabLeaves) return;
    const pasted = (ctrlKey && shiftKey && letter === "v") || (shiftKey && key === "Insert");
    if (pasted) return;
    if (ctrlKey && letter === "c" && (shiftKey || this.screen.selectedText())) {
      event.preventDefault();
      void navigator.clipboard?.writeText(this.screen.selectedText());
      getSelection()?.removeAllRanges();
      this.focus();
      return;
    }
    if (shiftKey && !ctrlKey && !this.screen.state?.alternate && /^Page(Up|Down)$/.test(key)) {
      event.preventDefault();
      this.screen.scrollPages(key === "PageUp" ? -1 : 1);
      return;
    }
    // With AltGr the character is what counts.
    const graph = event.getModifierState("AltGraph");
    const sent = this.press({
      key,
      ctrl: ctrlKey && !graph,
      alt: altKey && !graph,
      shift: shiftKey,
    });
    if (!sent) return;
    event.preventDefault();
    if (document.activeElement !== this.field) this.focus();
  }

  /** What keyboards without keys enter. @param {InputEvent} event */
  #beforeInput(event) {
    if (event.isComposing) return;
    const keys = /** @type {Record<string, string>} */ ({
      insertLineBreak: "Enter",
      insertParagraph: "Enter",
      deleteContentBackward: "Backspace",
      deleteContentForward: "Delete",
    });
    const key = keys[event.inputType];
    if (key) this.press({ key, ctrl: false, alt: false, shift: false });
    else if (event.inputType === "insertText" && event.data) this.#type(event.data);
    else return;
    event.preventDefault();
  }

  /** Lines that a shell would run at once are sent only when the user has seen how many there are. @param {string} text */
  async paste(text) {
    if (!text) return;
    const bracketed = this.screen.state?.bracketed_paste ?? false;
    const lines = text.trimEnd().split("\n").length;
    if (!bracketed && lines > 1) {
      const { confirmAction } = await import("../dialogs/dialogs.js");
      const what = "The program here cannot tell them from typing, and may run each of them.";
      if (!(await confirmAction(`Paste ${lines} lines?`, what, "Paste"))) return;
    }
    this.send(pasteSequence(text, bracketed));
    this.focus();
  }

  /** Whether a program wants an event of the mouse. With Shift, text is selected as elsewhere. @param {MouseEvent} event */
  #reports(event) {
    return !event.shiftKey && (this.screen.state?.mouse ?? "none") !== "none";
  }

  /** @param {MouseEvent} event @param {boolean} down */
  #mouse(event, down) {
    if (!this.#reports(event) || event.button > 2) return;
    event.preventDefault();
    this.pressed = down ? event.button : -1;
    this.send(mouseSequence(event.button, this.screen.cellAt(event), down));
    this.focus();
  }

  /** @param {MouseEvent} event */
  #move(event) {
    const mouse = this.screen.state?.mouse;
    const wanted = mouse === "movement" || (mouse === "drags" && this.pressed >= 0);
    if (!wanted || !this.#reports(event)) return;
    const cell = this.screen.cellAt(event);
    const place = `${cell.column} ${cell.row}`;
    if (place === this.cell) return;
    this.cell = place;
    this.send(mouseSequence(32 + (this.pressed >= 0 ? this.pressed : 3), cell, true));
  }

  /** @param {WheelEvent} event */
  #wheel(event) {
    const { state } = this.screen;
    if (!state || event.ctrlKey || event.shiftKey || !event.deltaY) return;
    const up = event.deltaY < 0;
    if (this.#reports(event)) {
      event.preventDefault();
      this.send(mouseSequence(up ? 64 : 65, this.screen.cellAt(event), true));
    } else if (state.alternate) {
      event.preventDefault();
      const key = { key: up ? "ArrowUp" : "ArrowDown", ctrl: false, alt: false, shift: false };
      this.send((keySequence(key, state.application_cursor) ?? "").repeat(WHEEL_LINES));
    }
  }
}
