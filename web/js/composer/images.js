/**
 * Images that are attached to a message: pasted, dropped or chosen.
 *
 * @module
 */

import { newId } from "../api.js";
import { fill, h, iconButton, PATHS } from "../ui/elements.js";
import { toast } from "../ui/toast.js";

/** @typedef {import("../gateway.js").ImageRequest & { name: string, key: string }} ImageAttachment */

const MEDIA_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** The API accepts no larger ones. */
const MAX_BYTES = 5 * 1024 * 1024;

export class ImageAttachments {
  /** @param {HTMLElement} box where they may be dropped @param {() => void} changed */
  constructor(box, changed) {
    this.changed = changed;
    /** @type {ImageAttachment[]} */ this.list = [];
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
    const files = [...(event.clipboardData?.files ?? [])].filter((file) =>
      file.type.startsWith("image/"),
    );
    if (!files.length) return;
    event.preventDefault();
    void this.add(files);
  }

  /** @param {Iterable<File> | ArrayLike<File> | null} files */
  async add(files) {
    for (const file of Array.from(files ?? [])) {
      if (!MEDIA_TYPES.includes(file.type))
        toast(`${file.name || "The file"} is not a supported image.`);
      else if (file.size > MAX_BYTES) toast(`${file.name || "The image"} is larger than 5 MB.`);
      else
        this.list.push({
          media_type: file.type,
          data: await base64(file),
          name: file.name || "image",
          key: newId(),
        });
    }
    this.#draw();
    const { storeImage } = await import("./image-store.js");
    await Promise.all(this.list.map(storeImage));
  }

  /** The keys under which they are stored. */
  get keys() {
    return this.list.map((it) => it.key);
  }

  /** Removes and returns all images. */
  take() {
    const { list } = this;
    this.list = [];
    this.#draw();
    return list;
  }

  /** @param {ImageAttachment[]} list */
  restore(list) {
    const { keys } = this;
    this.list.unshift(...list.filter((it) => !keys.includes(it.key)));
    this.#draw();
  }

  #draw() {
    fill(
      this.element,
      ...this.list.map((image) =>
        h(
          "div",
          { class: "picture" },
          h("img", { src: `data:${image.media_type};base64,${image.data}`, alt: "" }),
          h("span", {}, image.name),
          iconButton(`Remove ${image.name}`, PATHS.close, () => {
            this.list.splice(this.list.indexOf(image), 1);
            this.#draw();
            void import("./image-store.js").then((it) => it.removeUnusedImages());
          }),
        ),
      ),
    );
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
