/**
 * Where a person writes. It is never disabled: what is written while the line is down stays a draft,
 * and what is sent while the agent works either joins the running turn or waits for its end, as the
 * sender chooses.
 *
 * @module
 */

import { newId } from "./api.js";
import { fill, h, iconButton, PATHS } from "./elements.js";
import { Pictures } from "./pictures.js";
import { draft, keepDraft } from "./preferences.js";
import { toast } from "./toast.js";

/** @typedef {{ id: string, text: string, images: import("./gateway.js").Picture[], delivery: "queue" | "steer" }} Outgoing */
/** @typedef {{
 *   send: (prompt: Outgoing) => Promise<void>, edit: (prompt: string, text: string) => Promise<void>, interrupt: () => void, cycleMode: () => void,
 *   last: () => { id?: string, text: string } | undefined, commands: () => Promise<{ name: string, description?: string }[]>, files: (like: string) => Promise<string[]>
 * }} Desk */

const PHONE = matchMedia("(pointer: coarse), (max-width: 820px)");

export class Composer {
  /** @param {string} session @param {Desk} desk */
  constructor(session, desk) {
    this.session = session;
    this.desk = desk;
    this.busy = false;
    this.typedAt = -Infinity;
    /** A prompt that waits and is being changed here. @type {string | undefined} */
    this.editing = undefined;
    this.area = h("textarea", { rows: "1", "aria-label": "Message to the agent", placeholder: "Ask for something", autocapitalize: "sentences", enterkeyhint: PHONE.matches ? "enter" : "send", "aria-autocomplete": "list" });
    this.area.value = draft(session);
    this.hint = h("span", { class: "hint" });
    this.sendButton = iconButton("Send", PATHS.send, () => void this.submit("auto"), { class: "icon-button send" });
    this.stopButton = iconButton("Stop", PATHS.stop, () => desk.interrupt(), { class: "icon-button stop", hidden: true });
    this.note = h("div", { class: "editing", hidden: true });
    const chooser = h("input", { type: "file", accept: "image/*", multiple: true, hidden: true, "aria-label": "Pictures", onchange: () => { void this.pictures.add(chooser.files); chooser.value = ""; } });
    this.box = h("div", { class: "composer" });
    this.pictures = new Pictures(this.box, () => this.#refresh());
    const attach = iconButton("Add pictures", PATHS.picture, () => chooser.click());
    this.box.append(this.note, this.pictures.element, this.area, h("div", { class: "composer-row" }, attach, chooser, this.hint, this.stopButton, this.sendButton));
    /** @type {import("./completion.js").Completion | undefined} */ this.completion = undefined;
    this.element = h("div", { class: "composer-box" }, this.box);
    this.area.addEventListener("input", () => this.#typed());
    this.area.addEventListener("keydown", (event) => this.#key(event));
    this.area.addEventListener("paste", (event) => this.pictures.pasted(event));
    this.#refresh();
    this.#size();
  }

  /** @param {boolean} busy */
  setBusy(busy) {
    this.busy = busy;
    this.#refresh();
  }

  focus() {
    this.area.focus({ preventScroll: true });
  }

  /** Whether taking the focus away would hurt nobody. */
  get restful() {
    return this.area.value === "" && !this.pictures.any && performance.now() - this.typedAt > 1200;
  }

  /** Puts words in, for a person to go on with. @param {string} text */
  put(text) {
    this.area.value = text;
    this.#typed();
    this.focus();
  }

  /** Adds words behind those there. @param {string} text */
  quote(text) {
    this.put(this.area.value ? `${this.area.value.trimEnd()}\n${text}` : text);
  }

  /** Takes up a prompt that waits. @param {string} id @param {string} text */
  edit(id, text) {
    if (!this.editing && this.area.value.trim()) keepDraft(`${this.session}.aside`, this.area.value);
    this.editing = id;
    fill(this.note, "Changing a waiting prompt", h("button", { type: "button", class: "button quiet", onclick: () => this.#stopEditing() }, "Leave it as it was"));
    this.note.hidden = false;
    this.put(text);
    this.area.setSelectionRange(text.length, text.length);
  }

  /**
   * Sends what is written. Nothing that could not be sent is thrown away.
   *
   * @param {"auto" | "queue"} how
   */
  async submit(how) {
    const text = this.area.value;
    if (!text.trim() && !this.pictures.any) return;
    if (this.editing) {
      const id = this.editing;
      this.#stopEditing();
      await this.#tried(this.desk.edit(id, text), text, []);
      return;
    }
    const images = this.pictures.take();
    const delivery = how === "auto" && this.busy ? "steer" : "queue";
    this.area.value = "";
    this.#typed();
    // The id is made before the first attempt, so that a repeated one is the same prompt.
    await this.#tried(this.desk.send({ id: newId(), text, images, delivery }), text, images);
  }

  /** @param {Promise<void>} sending @param {string} text @param {import("./gateway.js").Picture[]} images */
  async #tried(sending, text, images) {
    try {
      await sending;
    } catch (problem) {
      toast(`Not sent: ${/** @type {Error} */ (problem).message}`);
      if (!this.area.value) this.put(text);
      this.pictures.restore(images);
    }
  }

  #stopEditing() {
    this.editing = undefined;
    this.note.hidden = true;
    this.area.value = draft(`${this.session}.aside`);
    keepDraft(`${this.session}.aside`, "");
    this.#typed();
  }

  /** The menus are fetched with the first sign that opens one. */
  async #complete() {
    const { Completion } = await import("./completion.js");
    if (this.completion) return;
    this.completion = new Completion(this.area, this.desk);
    this.element.prepend(this.completion.element);
    void this.completion.look();
  }

  #typed() {
    if (!this.completion && /[/@]/.test(this.area.value)) void this.#complete();
    this.typedAt = performance.now();
    if (!this.editing) keepDraft(this.session, this.area.value);
    this.#size();
    this.#refresh();
  }

  #size() {
    if (CSS.supports("field-sizing", "content")) return;
    this.area.style.height = "auto";
    this.area.style.height = `${this.area.scrollHeight}px`;
  }

  #refresh() {
    const something = this.area.value.trim() !== "" || this.pictures.any;
    this.sendButton.setAttribute("aria-disabled", String(!something));
    this.stopButton.hidden = !this.busy;
    const command = navigator.platform.startsWith("Mac") ? "⌘" : "Ctrl";
    this.area.placeholder = this.busy ? "Say something to the running turn" : "Ask for something";
    this.hint.textContent = this.editing ? "Enter keeps the change" : this.busy
      ? something ? `Enter joins the running turn · ${command}+Enter waits for its end` : "Esc stops"
      : "/ commands · @ files · ? keys";
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.isComposing || this.completion?.key(event)) return;
    const command = event.ctrlKey || event.metaKey;
    if (event.key === "Enter" && command) this.#do(event, () => void this.submit("queue"));
    else if (event.key === "Enter" && !event.shiftKey && !event.altKey && !PHONE.matches) this.#do(event, () => void this.submit("auto"));
    else if (event.key === "Escape" && this.editing) this.#do(event, () => this.#stopEditing());
    else if (event.key === "Escape" && this.busy) this.#do(event, () => this.desk.interrupt());
    else if (event.key === "Escape") this.#do(event, () => this.area.blur());
    else if (event.key === "Tab" && event.shiftKey) this.#do(event, () => this.desk.cycleMode());
    else if (event.key === "ArrowUp" && this.area.value === "") {
      const last = this.desk.last();
      if (last?.id) this.#do(event, () => this.edit(last.id ?? "", last.text));
      else if (last) this.#do(event, () => this.put(last.text));
    }
  }

  /** @param {KeyboardEvent} event @param {() => void} act */
  #do(event, act) {
    event.preventDefault();
    event.stopPropagation();
    act();
  }
}

