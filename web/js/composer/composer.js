/**
 * The message field. It is never disabled: text that cannot be sent stays a draft, and a message
 * that is sent while the agent works either joins the running turn or is queued.
 *
 * @module
 */

import { newId } from "../api.js";
import { fill, h, iconButton, PATHS } from "../ui/elements.js";
import { ImageAttachments } from "./images.js";
import { draft, preferences, saveDraft } from "../preferences.js";
import { toast } from "../ui/toast.js";

/** @typedef {{ id: string, text: string, images: import("./images.js").ImageAttachment[], delivery: "queue" | "steer" }} Outgoing */
/** @typedef {{
 *   send: (prompt: Outgoing) => Promise<void>, edit: (prompt: string, text: string) => Promise<void>, interrupt: () => void, leave: () => void, cycleMode: () => void, resume: () => void,
 *   last: () => { id?: string, text: string } | undefined, commands: () => Promise<{ name: string, description?: string }[]>, files: (query: string) => Promise<string[]>
 * }} ComposerActions */

const PHONE = matchMedia("(pointer: coarse), (max-width: 820px)");

export class Composer {
  /** @param {string} session @param {ComposerActions} actions */
  constructor(session, actions) {
    this.session = session;
    this.actions = actions;
    this.busy = false;
    this.agent = "Claude";
    this.canSteer = true;
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
    const written = draft(session);
    this.area.value = written.text;
    /** A message that was put back, which the server may have after all. */
    this.restored = written.restored;
    /** Whether the page shows another session now. */
    this.closed = false;
    /** Whether queued prompts wait until the user resumes. */
    this.held = false;
    /** What Enter does while a turn runs, loaded with the first of them. */
    this.delivery = h("div", { class: "delivery", hidden: true });
    this.hint = h("span", { class: "hint" });
    this.sendButton = iconButton("Send", PATHS.send, () => void this.submit("chosen"), {
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
    this.images = new ImageAttachments(this.box, () => {
      saveDraft(session, { images: this.images.keys });
      this.#refresh();
    });
    if (written.images.length) void this.#restoreImages(written.images);
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
        this.delivery,
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
    if ("SpeechRecognition" in window || "webkitSpeechRecognition" in window) {
      const dictate = iconButton(
        "Dictate",
        PATHS.microphone,
        () => void import("./dictation.js").then((it) => it.toggleDictation(this, dictate)),
        { class: "icon-button dictate", "aria-pressed": "false" },
      );
      this.hint.before(dictate);
    }
  }

  /** @param {boolean} busy @param {boolean} held whether queued prompts wait until the user resumes */
  setBusy(busy, held) {
    this.busy = busy;
    this.held = held;
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

  /** Edits a queued prompt. The draft is kept meanwhile. @param {string} id @param {string} text */
  edit(id, text) {
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
   * Sends the message. It is a draft until the server has it.
   *
   * @param {"chosen" | "other"} how as the user chose, or the other way
   */
  async submit(how) {
    this.element.dispatchEvent(new Event("sending"));
    const text = this.area.value;
    if (this.editing) {
      if (text.trim()) await this.#saveEdited(this.editing, text);
      return;
    }
    if (!text.trim() && !this.images.any) {
      if (this.held) this.actions.resume();
      return;
    }
    const steers = (preferences.delivery === "steer") === (how === "chosen");
    /** @type {"queue" | "steer"} */
    const delivery = this.busy && this.canSteer && steers ? "steer" : "queue";
    const { unsent } = draft(this.session);
    // The id is made before the first attempt, so that a retry does not add the prompt twice.
    const id = this.restored?.text === text ? this.restored.id : newId();
    const sent = { id, text, delivery, images: this.images.keys };
    this.restored = undefined;
    saveDraft(this.session, { unsent: [...unsent, sent], restored: undefined });
    const images = this.images.take();
    this.area.value = "";
    this.#typed();
    try {
      await this.actions.send({ id, text, images, delivery });
    } catch (problem) {
      toast(`Not sent: ${/** @type {Error} */ (problem).message}`);
      // The composer that is shown for this session next puts it back.
      if (!this.closed) this.#putBack([sent], images);
      return;
    }
    this.#forget([id]);
  }

  /** @param {string} id @param {string} text */
  async #saveEdited(id, text) {
    try {
      await this.actions.edit(id, text);
    } catch (problem) {
      toast(`Not changed: ${/** @type {Error} */ (problem).message}`);
      return;
    }
    if (this.editing === id) this.#stopEditing();
  }

  /**
   * Puts messages back that were on their way when the page was closed or reloaded.
   *
   * @param {(id: string) => boolean} arrived whether the server has a message
   */
  async restoreUnsent(arrived) {
    this.dropArrived(arrived);
    const { unsent } = draft(this.session);
    this.#forget(unsent.filter((it) => arrived(it.id)).map((it) => it.id));
    const lost = unsent.filter((it) => !arrived(it.id));
    if (!lost.length) return;
    const keys = lost.flatMap((it) => it.images);
    this.#putBack(lost, []);
    if (keys.length) await this.#restoreImages(keys);
  }

  /** Removes a message that was put back if the server has it after all. @param {(id: string) => boolean} arrived */
  dropArrived(arrived) {
    const { restored } = this;
    if (!restored || !arrived(restored.id)) return;
    this.restored = undefined;
    saveDraft(this.session, { restored: undefined });
    if (this.editing || this.area.value !== restored.text) return;
    this.images.take();
    this.area.value = "";
    this.#typed();
  }

  /** @param {import("../preferences.js").UnsentPrompt[]} prompts @param {import("./images.js").ImageAttachment[]} images */
  #putBack(prompts, images) {
    if (this.editing) this.#stopEditing();
    const text = [...prompts.map((it) => it.text), this.area.value].filter((it) => it.trim());
    this.area.value = text.join("\n");
    const same = prompts.find((it) => it.text === this.area.value);
    this.images.restore(images);
    this.restored = same && { id: same.id, text: same.text };
    saveDraft(this.session, {
      restored: this.restored,
      images: [...new Set([...this.images.keys, ...prompts.flatMap((it) => it.images)])],
    });
    this.#typed();
    const put = new Set(prompts.map((it) => it.id));
    const { unsent } = draft(this.session);
    saveDraft(this.session, { unsent: unsent.filter((it) => !put.has(it.id)) });
  }

  /** The server has these messages. @param {string[]} ids */
  #forget(ids) {
    if (!ids.length) return;
    const { unsent } = draft(this.session);
    const gone = unsent.filter((it) => ids.includes(it.id));
    saveDraft(this.session, { unsent: unsent.filter((it) => !gone.includes(it)) });
    if (gone.some((it) => it.images.length))
      void import("./image-store.js").then((it) => it.removeUnusedImages());
  }

  /** @param {string[]} keys */
  async #restoreImages(keys) {
    const { storedImages } = await import("./image-store.js");
    this.images.restore(await storedImages(keys));
  }

  close() {
    this.closed = true;
  }

  #stopEditing() {
    this.editing = undefined;
    this.note.hidden = true;
    this.area.value = draft(this.session).text;
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
    if (!this.editing) saveDraft(this.session, { text: this.area.value });
    this.#size();
    this.#refresh();
  }

  #size() {
    if (CSS.supports("field-sizing", "content")) return;
    this.area.style.height = "auto";
    this.area.style.height = `${this.area.scrollHeight}px`;
  }

  /** @param {string} agent its name @param {boolean} canSteer whether a message can join a running turn */
  showAgent(agent, canSteer) {
    if (this.agent === agent && this.canSteer === canSteer) return;
    this.agent = agent;
    this.canSteer = canSteer;
    this.#refresh();
  }

  #refresh() {
    const hasContent = this.area.value.trim() !== "" || this.images.any;
    this.sendButton.setAttribute("aria-disabled", String(!hasContent));
    this.stopButton.hidden = !this.busy;
    this.delivery.hidden = !this.busy || !this.canSteer || this.editing !== undefined;
    if (!this.delivery.hidden && !this.delivery.firstChild)
      void import("./delivery.js").then((it) =>
        it.showDeliveryChoice(this.delivery, () => this.#refresh()),
      );
    this.box.classList.toggle("filled", hasContent);
    this.area.placeholder =
      this.busy && this.canSteer
        ? preferences.delivery === "steer"
          ? "Message the running turn…"
          : "Queue a message…"
        : `Message ${this.agent}…`;
    this.hint.textContent = this.#hint(hasContent);
  }

  /** @param {boolean} hasContent */
  #hint(hasContent) {
    const command = navigator.platform.startsWith("Mac") ? "⌘" : "Ctrl";
    if (this.editing) return "Enter saves the change";
    if (this.held && !hasContent) return "Enter resumes the queue";
    if (!this.busy) return "/ commands · @ files · ? shortcuts";
    if (!hasContent) return "Esc stops the agent";
    if (!this.canSteer) return "Enter queues it";
    return preferences.delivery === "steer"
      ? `Enter sends it into this turn · ${command}+Enter queues it`
      : `Enter queues it · ${command}+Enter sends it now`;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.isComposing || this.completion?.key(event)) return;
    const command = event.ctrlKey || event.metaKey;
    if (event.key === "Enter" && command) this.#handle(event, () => void this.submit("other"));
    else if (event.key === "Enter" && !event.shiftKey && !event.altKey && !PHONE.matches)
      this.#handle(event, () => void this.submit("chosen"));
    else if (event.key === "Escape" && this.editing) this.#handle(event, () => this.#stopEditing());
    else if (event.key === "Escape" && !this.busy) this.#handle(event, () => this.area.blur());
    else if (event.key === "Escape") this.#handle(event, () => this.actions.leave());
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
