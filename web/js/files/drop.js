/**
 * Files that are dropped anywhere on the page of a session.
 *
 * @module
 */

import { h } from "../ui/elements.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { toast } from "../ui/toast.js";
import { uploadFiles } from "./upload.js";

await loadStylesheet("/css/upload.css");

/** What the message field takes itself. */
const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/**
 * Accepts dropped files. Images that are dropped on the message field are attached to the message.
 *
 * @param {import("../session-page.js").SessionPage} page
 * @param {DragEvent} first the event that began it
 */
export function acceptDrops(page, first) {
  const words = h("p", {});
  const zone = h("div", { class: "drop-zone", hidden: true, "aria-hidden": "true" }, words);
  page.element.append(zone);
  const hasFiles = (/** @type {DragEvent} */ event) =>
    event.dataTransfer?.types.includes("Files") ?? false;
  const inComposer = (/** @type {Event} */ event) =>
    page.composer.element.contains(/** @type {Node} */ (event.target));
  const drag = (/** @type {DragEvent} */ event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    const items = [...(event.dataTransfer?.items ?? [])];
    const attached = inComposer(event) && items.every((it) => IMAGES.includes(it.type));
    const directory = page.uploadDirectory?.();
    words.textContent =
      directory === undefined
        ? "Drop files to upload them and mention them in the message"
        : `Drop files to upload them to ${directory || "the project's directory"}`;
    zone.hidden = attached;
  };
  page.element.addEventListener("dragover", drag);
  page.element.addEventListener("dragleave", (event) => {
    // Not when it only goes from one element of the page to another.
    if (!page.element.contains(/** @type {Node | null} */ (event.relatedTarget)))
      zone.hidden = true;
  });
  page.element.addEventListener(
    "drop",
    (event) => {
      zone.hidden = true;
      const files = [...(event.dataTransfer?.files ?? [])];
      if (!files.length || (inComposer(event) && files.every((it) => IMAGES.includes(it.type))))
        return;
      event.preventDefault();
      event.stopPropagation();
      const items = [...(event.dataTransfer?.items ?? [])];
      const isDirectory = items.map((it) => it.webkitGetAsEntry?.()?.isDirectory ?? false);
      if (isDirectory.includes(true)) toast("Directories cannot be uploaded, only files.");
      void uploadFiles(
        page,
        files.filter((_, n) => !isDirectory[n]),
      );
    },
    { capture: true },
  );
  drag(first);
}
