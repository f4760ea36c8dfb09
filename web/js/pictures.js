/**
 * Pictures that go with a prompt: pasted, dropped or chosen, shown as pills until it is sent.
 *
 * @module
 */

import { fill, h, iconButton, PATHS } from "./elements.js";
import { toast } from "./toast.js";

/** @typedef {import("./gateway.js").Picture} Picture */

const KINDS = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** The API takes no larger ones. */
const LARGEST = 5 * 1024 * 1024;

export class Pictures {
  /** @param {HTMLElement} box where they may be dropped @param {() => void} changed */
  constructor(box, changed) {
    this.changed = changed;
    /** @type {Picture[]} */ this.list = [];
    this.element = h("div", { class: "pictures", hidden: true });
    box.addEventListener("dragover", (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      box.classList.add("dropping");
    });
    box.addEventListener("dragleave", () => box.classList.remove("dropping"));
    box.addEventListener("drop", (event) => {
      box.classList.remove("dropping");
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      void this.add(event.dataTransfer.files);
    });
  }

  get any() {
    return this.list.length > 0;
  }

  /** @param {ClipboardEvent} event */
  pasted(event) {
    const files = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith("image/"));
    if (!files.length) return;
    event.preventDefault();
    void this.add(files);
  }

  /** @param {Iterable<File> | ArrayLike<File> | null} files */
  async add(files) {
    for (const file of Array.from(files ?? [])) {
      if (!KINDS.includes(file.type)) toast(`${file.name || "This"} is no picture the agent can see.`);
      else if (file.size > LARGEST) toast(`${file.name || "The picture"} is larger than 5 MB.`);
      else this.list.push({ media_type: file.type, data: await base64(file), name: file.name || "picture" });
    }
    this.#draw();
  }

  /** All of them, and none are left. */
  take() {
    const { list } = this;
    this.list = [];
    this.#draw();
    return list;
  }

  /** @param {Picture[]} list */
  restore(list) {
    this.list.unshift(...list);
    this.#draw();
  }

  #draw() {
    fill(this.element, ...this.list.map((picture) => h("div", { class: "picture" },
      h("img", { src: `data:${picture.media_type};base64,${picture.data}`, alt: "" }), h("span", {}, picture.name),
      iconButton(`Remove ${picture.name}`, PATHS.close, () => {
        this.list.splice(this.list.indexOf(picture), 1);
        this.#draw();
      }))));
    this.element.hidden = !this.any;
    this.changed();
  }
}

/** @param {File} file @returns {Promise<string>} */
function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).split(",")[1] ?? "");
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
