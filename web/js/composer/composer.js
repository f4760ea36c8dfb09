/**
 * The message field. It is never disabled: text that cannot be sent stays a draft, and a message
 * that is sent while the agent works either joins the running turn or is queued.
 *
 * @module
 */

import { newId } from "../api.js";
import { fill, h, iconButton, PATHS } from "../ui/elements.js";
import { ImageAttachments } from "./images.js";
import { draft, saveDraft } from "../preferences.js";
import { toast } from "../ui/toast.js";

/** @typedef {{ id: string, text: string, images: import("./images.js").ImageAttachment[], delivery: "queue" | "steer" }} Outgoing */
/** @typedef {{
 *   send: (prompt: Outgoing) => Promise<void>, edit: (prompt: string, text: string) => Promise<void>, interrupt: () => void, cycleMode: () => void,
 *   last: () => { id?: string, text: string } | undefined, commands: () => Promise<{ name: string, description?: string }[]>, files: (query: string) => Promise<string[]>
 * }} ComposerActions */

const PHONE = matchMedia("(pointer: coarse), (max-width: 820px)");

export class Composer {
  /** @param {string} session @param {ComposerActions} actions */
  constructor(session, actions) {
    this.session = session;
    this.actions = actions;
    this.busy = false;
    this.typedAt = -Infinity;
    /** The queued prompt that is being edited. @type {string | undefined} */
    this.editing = undefined;
    this.area = h("textarea", {
      rows: "1",
      "aria-label": "Message",
      placeholder: "Message Claude…",
      autocapitalize: "sentences",
      enterkeyhint: PHONE.matches ? "enter" : "send",
      "aria-autocomplete": "list",
    });
    this.area.value = draft(session);
    this.hint = h("span", { class: "hint" });
    this.sendButton = iconButton("Send", PATHS.send, () => void this.submit("auto"), {
      class: "icon-button send",
    });
    this.stopButton = iconButton("Stop", PATHS.stop, () => actions.interrupt(), {
      class: "icon-button stop",
      hidden: true,
    });
    this.note = h("div", { class: "editing", hidden: true });
    const chooser = h("input", {
      type: "file",
      accept: "image/*",
      multiple: true,
      hidden: true,
      "aria-label": "Images",
      onchange: () => {
        void this.images.add(chooser.files);
        chooser.value = "";
      },
    });
    this.box = h("div", { class: "composer" });
    this.images = new ImageAttachments(this.box, () => this.#refresh());
    const attach = iconButton("Attach images", PATHS.picture, () => chooser.click());
    this.box.append(
      this.note,
      this.images.element,
      this.area,
      h(
        "div",
        { class: "composer-row" },
        attach,
        chooser,
        this.hint,
        this.stopButton,
        this.sendButton,
      ),
    );
    /** @type {import("./completion.js").Completion | undefined} */ this.completion = undefined;
    this.element = h("div", { class: "composer-box" }, this.box);
    this.area.addEventListener("input", () => this.#typed());
    this.area.addEventListener("keydown", (event) => this.#key(event));
    this.area.addEventListener("paste", (event) => this.images.pasted(event));
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

  /** Whether the focus can be moved away without disturbing the user. */
  get isIdle() {
    return this.area.value === "" && !this.images.any && performance.now() - this.typedAt > 1200;
  }

  /** Sets the text and focuses the field. @param {string} text */
  setText(text) {
    this.area.value = text;
    this.#typed();
    this.focus();
  }

  /** Appends text. @param {string} text */
  quote(text) {
    this.setText(this.area.value ? `${this.area.value.trimEnd()}\n${text}` : text);
  }

  /** Edits a queued prompt. @param {string} id @param {string} text */
  edit(id, text) {
    if (!this.editing && this.area.value.trim())
      saveDraft(`${this.session}.aside`, this.area.value);
    this.editing = id;
    fill(
      this.note,
      "Editing a queued message",
      h(
        "button",
        { type: "button", class: "button quiet", onclick: () => this.#stopEditing() },
        "Cancel",
      ),
    );
    this.note.hidden = false;
    this.setText(text);
    this.area.setSelectionRange(text.length, text.length);
  }

  /**
   * Sends the message. If that fails, the text is put back.
   *
   * @param {"auto" | "queue"} how
   */
  async submit(how) {
    const text = this.area.value;
    if (!text.trim() && !this.images.any) return;
    if (this.editing) {
      const id = this.editing;
      this.#stopEditing();
      await this.#send(this.actions.edit(id, text), text, []);
      return;
    }
    const images = this.images.take();
    const delivery = how === "auto" && this.busy ? "steer" : "queue";
    this.area.value = "";
    this.#typed();
    // The id is made before the first attempt, so that a retry does not add the prompt twice.
    await this.#send(this.actions.send({ id: newId(), text, images, delivery }), text, images);
  }

  /** @param {Promise<void>} sending @param {string} text @param {import("./images.js").ImageAttachment[]} images */
  async #send(sending, text, images) {
    try {
      await sending;
    } catch (problem) {
      toast(`Not sent: ${/** @type {Error} */ (problem).message}`);
      if (!this.area.value) this.setText(text);
      this.images.restore(images);
    }
  }

  #stopEditing() {
    this.editing = undefined;
    this.note.hidden = true;
    this.area.value = draft(`${this.session}.aside`);
    saveDraft(`${this.session}.aside`, "");
    this.#typed();
  }

  /** Completion is loaded when the first `/` or `@` is typed. */
  async #loadCompletion() {
    const { Completion } = await import("./completion.js");
    if (this.completion) return;
    this.completion = new Completion(this.area, this.actions);
    this.element.prepend(this.completion.element);
    void this.completion.update();
  }

  #typed() {
    if (!this.completion && /[/@]/.test(this.area.value)) void this.#loadCompletion();
    this.typedAt = performance.now();
    if (!this.editing) saveDraft(this.session, this.area.value);
    this.#size();
    this.#refresh();
  }

  #size() {
    if (CSS.supports("field-sizing", "content")) return;
    this.area.style.height = "auto";
    this.area.style.height = `${this.area.scrollHeight}px`;
  }

  #refresh() {
    const hasContent = this.area.value.trim() !== "" || this.images.any;
    this.sendButton.setAttribute("aria-disabled", String(!hasContent));
    this.stopButton.hidden = !this.busy;
    const command = navigator.platform.startsWith("Mac") ? "⌘" : "Ctrl";
    this.area.placeholder = this.busy ? "Message the running turn…" : "Message Claude…";
    this.hint.textContent = this.editing
      ? "Enter saves the change"
      : this.busy
        ? hasContent
          ? `Enter sends it into this turn · ${command}+Enter queues it`
          : "Esc stops the agent"
        : "/ commands · @ files · ? shortcuts";
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.isComposing || this.completion?.key(event)) return;
    const command = event.ctrlKey || event.metaKey;
    if (event.key === "Enter" && command) this.#handle(event, () => void this.submit("queue"));
    else if (event.key === "Enter" && !event.shiftKey && !event.altKey && !PHONE.matches)
      this.#handle(event, () => void this.submit("auto"));
    else if (event.key === "Escape" && this.editing) this.#handle(event, () => this.#stopEditing());
    else if (event.key === "Escape" && this.busy)
      this.#handle(event, () => this.actions.interrupt());
    else if (event.key === "Escape") this.#handle(event, () => this.area.blur());
    else if (event.key === "Tab" && event.shiftKey)
      this.#handle(event, () => this.actions.cycleMode());
    else if (event.key === "ArrowUp" && this.area.value === "") {
      const last = this.actions.last();
      if (last?.id) this.#handle(event, () => this.edit(last.id ?? "", last.text));
      else if (last) this.#handle(event, () => this.setText(last.text));
    }
  }

  /** @param {KeyboardEvent} event @param {() => void} act */
  #handle(event, act) {
    event.preventDefault();
    event.stopPropagation();
    act();
  }
}
