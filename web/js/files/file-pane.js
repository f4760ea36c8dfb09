/**
 * One file: its content, a preview or the editor, and what can be done with it.
 *
 * @module
 */

import { fill, h, icon, iconButton, PATHS } from "../ui/elements.js";
import { clock } from "../ui/format.js";
import { navigate, replaceAddress } from "../ui/layers.js";
import { toast } from "../ui/toast.js";
import { htmlNodes } from "../ui/trusted-html.js";
import { visibleLine } from "../ui/visible-text.js";
import { filesAddress, mention } from "./address.js";
import { CodeLines } from "./code-lines.js";
import { FileEditor, unsaved } from "./editor.js";
import { contentAddress, viewFile } from "./file-api.js";

/** @typedef {import("../gateway.js").FileView} FileView */

export class FilePane {
  /**
   * @param {import("../session-page.js").SessionPage} page
   * @param {{ back: () => void, menu: (path: string, anchor: HTMLElement) => void, directory: (path: string) => void, changed: () => void }} actions
   */
  constructor(page, actions) {
    this.page = page;
    this.actions = actions;
    this.path = "";
    this.line = 0;
    /** Whether the preview is shown, if there is one. */
    this.preview = true;
    /** @type {FileView | undefined} */ this.view = undefined;
    /** Resolved once the file is there. @type {Promise<void> | undefined} */ this.loading =
      undefined;
    /** @type {CodeLines | undefined} */ this.lines = undefined;
    /** @type {FileEditor | undefined} */ this.editor = undefined;
    this.head = h("header", { class: "file-head" });
    this.note = h("div", { class: "file-banner", role: "status", hidden: true });
    this.body = h("div", { class: "file-body" });
    this.element = h(
      "section",
      { class: "file-pane", "aria-label": "File" },
      this.head,
      this.note,
      this.body,
    );
  }

  /** Shows a file, or that none was chosen. @param {string} path @param {number} line */
  async show(path, line) {
    if (path === this.path && path && (this.view || this.loading)) {
      this.line = line;
      await this.loading;
      if (line && path === this.path) void this.lines?.goTo(line);
      return;
    }
    this.close();
    Object.assign(this, { path, line, view: undefined, lines: undefined, loading: undefined });
    this.note.hidden = true;
    this.#drawHead();
    if (!path) {
      fill(
        this.body,
        h(
          "p",
          { class: "file-note" },
          "Choose a file to read it here, or drop files to upload them.",
        ),
      );
      return;
    }
    fill(this.body, h("p", { class: "file-note" }, "Loading…"));
    this.loading = this.#load();
    await this.loading;
    if (this.path !== path) return;
    this.loading = undefined;
    if (unsaved(this.page.id, path)) await this.edit();
  }

  /** Keeps what was typed. */
  close() {
    this.editor?.close();
    this.editor = undefined;
  }

  /** Reads the file again if it has changed. */
  async refresh() {
    const { path, view } = this;
    if (!path || !view) return;
    const now = await viewFile(this.page.id, path).catch((problem) => problem);
    if (path !== this.path || view !== this.view) return;
    const gone = now instanceof Error;
    if (!gone && now.tag === view.tag) return;
    if (gone && /** @type {any} */ (now).status === 0) return;
    if (this.editor?.dirty)
      this.#say(
        gone
          ? "This file was deleted meanwhile. Saving asks what to do."
          : "This file was changed meanwhile. Saving shows what differs.",
      );
    else {
      this.close();
      await this.#load();
    }
  }

  async #load() {
    const { path } = this;
    try {
      const view = await viewFile(this.page.id, path);
      if (path !== this.path) return;
      this.view = view;
      this.#drawHead();
      await this.#drawBody();
    } catch (problem) {
      if (path !== this.path) return;
      const { kind, message } = /** @type {import("../api.js").Problem} */ (problem);
      if (kind === "wrong-kind") this.actions.directory(path);
      this.view = undefined;
      this.#drawHead();
      fill(this.body, h("p", { class: "file-note" }, message));
    }
  }

  #drawHead() {
    const { path, view } = this;
    const name = visibleLine(path);
    const cut = name.lastIndexOf("/") + 1;
    const dirty = this.editor?.dirty ?? false;
    const facts = view ? `${bytes(view.size)} · ${clock(view.modified)}` : "";
    fill(
      this.head,
      iconButton("All files", PATHS.chevron, () => this.actions.back(), {
        class: "icon-button file-back",
      }),
      h(
        "h2",
        { title: name },
        cut > 0 && h("span", { class: "soft" }, h("bdi", {}, name.slice(0, cut))),
        h("b", {}, name.slice(cut)),
        dirty && h("span", { class: "file-dirty", title: "Not saved" }, "●"),
      ),
      h("span", { class: "file-facts" }, facts),
      view && h("div", { class: "file-actions" }, ...this.#buttons(view)),
    );
    this.head.hidden = !path;
  }

  /** @param {FileView} view */
  #buttons(view) {
    const button = (
      /** @type {string} */ label,
      /** @type {() => void} */ act,
      /** @type {Record<string, unknown>} */ more = {},
    ) => h("button", { type: "button", class: "button", onclick: act, ...more }, label);
    if (this.editor)
      return [
        button("Close", () => void this.stopEditing()),
        this.editor.dirty && button("Discard", () => this.editor?.revert()),
        button("Save", () => void this.editor?.save(), {
          class: "button primary",
          disabled: !this.editor.dirty,
        }),
      ];
    return [
      this.#hasPreview(view) &&
        button(this.preview ? "Source" : "Preview", () => {
          this.preview = !this.preview;
          this.#drawHead();
          void this.#drawBody();
        }),
      view.kind === "text" &&
        !view.read_only &&
        button("Edit", () => void this.edit(), { title: "Edit this file" }),
      button("@", () => this.#mention(), {
        "aria-label": "Mention in the message",
        title: "Mention in the message",
      }),
      h(
        "a",
        {
          class: "icon-button",
          href: contentAddress(this.page.id, this.path, { download: true }),
          download: "",
          "aria-label": "Download",
          title: "Download",
        },
        icon("M10 3v9M6 9l4 4 4-4M4 16h12"),
      ),
      this.#menuButton(),
    ];
  }

  #menuButton() {
    const menu = iconButton(
      "More about this file",
      PATHS.more,
      () => this.actions.menu(this.path, menu),
      { "aria-haspopup": "menu" },
    );
    return menu;
  }

  /** @param {FileView} view */
  #hasPreview(view) {
    return view.has_preview || this.#isDrawing(view);
  }

  /** @param {FileView} view */
  #isDrawing(view) {
    return view.kind === "text" && this.path.toLowerCase().endsWith(".svg");
  }

  async #drawBody() {
    const { view, path, page } = this;
    if (!view || this.editor) return;
    this.lines = undefined;
    if (view.kind === "image" || (this.preview && this.#isDrawing(view))) {
      this.#drawImage();
    } else if (view.kind === "pdf") {
      this.#drawCard("A PDF document.", "Open");
    } else if (view.kind === "binary") {
      this.#drawCard(`A binary file of ${bytes(view.size)}, which cannot be shown.`);
    } else if (this.preview && view.has_preview && !this.line) {
      const { preview } = await viewFile(page.id, path, { preview: true });
      if (path !== this.path || this.editor) return;
      const words = h("div", { class: "item text words" });
      words.append(htmlNodes(preview ?? ""));
      fill(this.body, h("div", { class: "file-preview", tabindex: "0" }, words));
    } else if (view.size === 0) {
      fill(this.body, h("p", { class: "file-note" }, "The file is empty."));
    } else {
      this.lines = new CodeLines({
        more: (offset) => viewFile(page.id, path, { offset }),
        mark: (line) => this.#mark(line),
      });
      fill(this.body, this.lines.element);
      this.lines.show(view.lines, view.next);
      if (this.line) await this.lines.goTo(this.line);
    }
  }

  #drawImage() {
    const about = h("figcaption", { class: "soft" });
    const image = h("img", {
      src: contentAddress(this.page.id, this.path),
      alt: visibleLine(this.path),
      onload: () => (about.textContent = `${image.naturalWidth} × ${image.naturalHeight}`),
      onerror: () => (about.textContent = "The browser cannot show this image."),
    });
    fill(this.body, h("figure", { class: "file-image", tabindex: "0" }, image, about));
  }

  /** @param {string} text @param {string} [open] */
  #drawCard(text, open) {
    const address = (/** @type {boolean} */ download) =>
      contentAddress(this.page.id, this.path, { download });
    fill(
      this.body,
      h(
        "div",
        { class: "file-card" },
        h("p", {}, text),
        open &&
          h(
            "a",
            { class: "button primary", href: address(false), target: "_blank", rel: "noopener" },
            open,
          ),
        h("a", { class: "button", href: address(true), download: "" }, "Download"),
      ),
    );
  }

  /** @param {number} line */
  #mark(line) {
    this.line = line;
    replaceAddress(filesAddress(this.page.id, this.path, line));
    void this.lines?.goTo(line);
  }

  #mention() {
    const text = mention(this.path, this.lines ? this.line : 0);
    navigate(`#/s/${this.page.id}`);
    this.page.composer.quote(text);
  }

  async edit() {
    if (this.editor) return;
    const { path } = this;
    const editor = new FileEditor(this.page.id, path, {
      saved: () => {
        toast("Saved.");
        this.note.hidden = true;
        this.actions.changed();
        void this.#saved();
      },
      closed: () => void this.stopEditing(),
      changed: () => this.#drawHead(),
    });
    try {
      const kept = await editor.load();
      if (this.path !== path) return;
      this.editor = editor;
      if (kept) this.#say("These are your changes that were not saved yet.");
      else if (this.view?.line_ending === "mixed")
        this.#say("This file has several kinds of line endings. Saving makes them all the same.");
      fill(this.body, editor.element);
      this.#drawHead();
      editor.focus();
    } catch (problem) {
      toast(/** @type {Error} */ (problem).message);
    }
  }

  /** Goes on with what was saved. */
  async #saved() {
    const { path } = this;
    const view = await viewFile(this.page.id, path).catch(() => undefined);
    if (view && path === this.path) this.view = view;
    this.#drawHead();
  }

  /** Shows the file instead of the editor. What was typed is kept. */
  async stopEditing() {
    this.close();
    this.note.hidden = true;
    await this.#load();
    this.element.querySelector("button")?.focus();
  }

  /** @param {string} text */
  #say(text) {
    this.note.textContent = text;
    this.note.hidden = false;
  }

  focus() {
    (this.editor ?? this.lines?.element ?? this.head.querySelector("button"))?.focus();
  }
}

/** A size: `950 B`, `1.2 MB`. @param {number} size */
export function bytes(size) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let number = size;
  while (number >= 999.5 && at < units.length - 1) {
    number /= 1000;
    at += 1;
  }
  return `${at && number < 9.95 ? number.toFixed(1) : Math.round(number)} ${units[at]}`;
}
