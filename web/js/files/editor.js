/**
 * Editing a file. What was typed is kept in the browser until it is saved, and never saved over
 * changes that others made.
 *
 * @module
 */

import { fileDraft, saveFileDraft } from "../preferences.js";
import { fill, h } from "../ui/elements.js";
import { toast } from "../ui/toast.js";
import { compareText, readText, saveText } from "./file-api.js";

/** How long typing pauses before it is kept, in milliseconds. */
const KEEP_AFTER = 300;

/** What was typed and not saved. @param {string} session @param {string} path @returns {{ tag: string | null, text: string } | undefined} */
export function unsaved(session, path) {
  try {
    return JSON.parse(fileDraft(session, path) || "null") ?? undefined;
  } catch {
    return undefined;
  }
}

/** @param {string} session @param {string} path */
export function discard(session, path) {
  saveFileDraft(session, path, "");
}

export class FileEditor {
  /**
   * @param {string} session
   * @param {string} path
   * @param {{ saved: (tag: string) => void, closed: () => void, changed: (dirty: boolean) => void }} actions
   */
  constructor(session, path, actions) {
    this.session = session;
    this.path = path;
    this.actions = actions;
    /** The tag of what was read; `null` if there is no such file. @type {string | null} */
    this.tag = null;
    this.original = "";
    this.crlf = false;
    this.saving = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */ this.timer = undefined;
    /** Whether the tab key leaves the field. */
    this.leaving = false;
    this.area = h("textarea", {
      class: "file-editor",
      "aria-label": `Content of ${path}`,
      "aria-describedby": "editor-hint",
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      wrap: "off",
    });
    this.hint = h(
      "p",
      { class: "editor-hint", id: "editor-hint" },
      "Ctrl+S saves · Esc, then Tab leaves the field",
    );
    this.element = h("div", { class: "editor" }, this.area, this.hint);
    this.area.addEventListener("input", () => this.#typed());
    this.area.addEventListener("keydown", (event) => this.#key(event));
    this.keep = () => this.#keep();
    addEventListener("pagehide", this.keep);
  }

  /** Loads the text, or what was typed before. */
  async load() {
    const kept = unsaved(this.session, this.path);
    const { text, tag } = await readText(this.session, this.path);
    this.crlf = text.includes("\r\n") && !/(^|[^\r])\n/.test(text);
    this.original = text.replace(/\r\n?/g, "\n");
    this.tag = kept?.tag ?? tag;
    this.area.value = kept?.text ?? this.original;
    this.area.setSelectionRange(0, 0);
    this.actions.changed(this.dirty);
    return Boolean(kept);
  }

  get dirty() {
    return this.area.value !== this.original;
  }

  /** The text as it is saved: with the line endings that the file has. */
  get text() {
    return this.crlf ? this.area.value.replaceAll("\n", "\r\n") : this.area.value;
  }

  focus() {
    this.area.focus();
  }

  /** Keeps what was typed, and ends. */
  close() {
    removeEventListener("pagehide", this.keep);
    this.#keep();
  }

  /** Forgets what was typed. */
  revert() {
    clearTimeout(this.timer);
    this.timer = undefined;
    discard(this.session, this.path);
    this.area.value = this.original;
    this.actions.closed();
  }

  /** @param {string | null} [tag] of the content that is to be replaced */
  async save(tag = this.tag) {
    if (this.saving) return;
    this.saving = true;
    this.area.readOnly = true;
    const { text } = this;
    try {
      this.tag = await saveText(this.session, this.path, text, tag);
      this.original = this.area.value;
      clearTimeout(this.timer);
      this.timer = undefined;
      discard(this.session, this.path);
      this.actions.changed(false);
      this.actions.saved(this.tag);
    } catch (problem) {
      const { kind, message } = /** @type {import("../api.js").Problem} */ (problem);
      if (kind === "changed" || kind === "exists") await this.#resolve(text);
      else toast(`Not saved: ${message}`);
    } finally {
      this.saving = false;
      this.area.readOnly = false;
    }
  }

  /** Asks what to do with changes of both sides. @param {string} text */
  async #resolve(text) {
    const { openDialog } = await import("../dialogs/dialogs.js");
    const { htmlNodes } = await import("../ui/trusted-html.js");
    const difference = h("div", { class: "item" }, h("p", {}, "…"));
    const button = (
      /** @type {string} */ label,
      /** @type {string} */ look,
      /** @type {() => void} */ act,
    ) =>
      h(
        "button",
        {
          type: "button",
          class: `button ${look}`,
          onclick: () => {
            dialog.close();
            act();
          },
        },
        label,
      );
    const overwrite = button("Save mine", "danger", () => void this.save(theirs));
    const take = button("Take theirs", "", () => {
      this.original = this.area.value;
      this.revert();
    });
    /** @type {string | null} */ let theirs = null;
    const dialog = openDialog({
      title: "The file has changed",
      class: "wide",
      body: [
        h(
          "p",
          {},
          "Someone, or the agent, changed this file after you had opened it. Saving yours would change it like this:",
        ),
        difference,
      ],
      foot: [button("Go on editing", "quiet", () => this.focus()), take, overwrite],
    });
    overwrite.disabled = true;
    try {
      const compared = await compareText(this.session, this.path, text);
      theirs = compared.tag ?? null;
      overwrite.disabled = false;
      if (theirs === null) {
        take.disabled = true;
        fill(difference, h("p", {}, "The file was deleted. Saving yours creates it again."));
      } else if (compared.added + compared.removed === 0)
        fill(difference, h("p", {}, "Both have the same content."));
      else difference.replaceChildren(htmlNodes(compared.html));
    } catch (problem) {
      fill(difference, h("p", { class: "form-error" }, /** @type {Error} */ (problem).message));
    }
  }

  #typed() {
    this.actions.changed(this.dirty);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#keep(), KEEP_AFTER);
  }

  #keep() {
    if (this.timer === undefined) return;
    clearTimeout(this.timer);
    this.timer = undefined;
    const kept = this.dirty ? JSON.stringify({ tag: this.tag, text: this.area.value }) : "";
    saveFileDraft(this.session, this.path, kept);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") {
      event.preventDefault();
      if (this.dirty) void this.save();
    } else if (event.key === "Escape") {
      event.stopPropagation();
      this.leaving = true;
    } else if (event.key === "Tab" && !event.shiftKey && !this.leaving) {
      event.preventDefault();
      // Unlike a change of the value, this can be undone.
      document.execCommand("insertText", false, this.#indentation());
    } else if (event.key !== "Shift") this.leaving = false;
  }

  /** What the file's own lines begin with. */
  #indentation() {
    const [, own = "  "] = /^(\t| +)\S/m.exec(this.original) ?? [];
    return own.startsWith("\t") ? "\t" : own.slice(0, 4);
  }
}
