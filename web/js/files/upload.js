/**
 * Sending files to the session's directory, one after the other, with their progress.
 *
 * @module
 */

import { h, iconButton, PATHS } from "../ui/elements.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { toast } from "../ui/toast.js";
import { visibleLine } from "../ui/visible-text.js";
import { mention } from "./address.js";
import { uploadFile } from "./file-api.js";

await loadStylesheet("/css/upload.css");

/**
 * Sends files: to the directory that is shown, or, from the conversation, to where the agent may read
 * them, and mentions them in the message.
 *
 * @param {import("../session-page.js").SessionPage} page
 * @param {File[]} files
 */
export async function uploadFiles(page, files) {
  if (!files.length) return;
  const directory = page.uploadDirectory?.();
  const panel = uploadPanel();
  const rows = files.map((file) => new UploadRow(file));
  panel.append(...rows.map((it) => it.element));
  /** @type {string[]} */ const paths = [];
  for (const row of rows) {
    try {
      paths.push(await row.send(page.id, directory));
    } catch (problem) {
      const { kind, message } = /** @type {import("../api.js").Problem} */ (problem);
      if (kind !== "cancelled") toast(`${visibleLine(row.file.name)} was not uploaded: ${message}`);
    }
    row.element.remove();
    if (!panel.firstChild) panel.remove();
  }
  if (!paths.length) return;
  toast(
    paths.length === 1 ? `Uploaded ${visibleLine(paths[0])}` : `Uploaded ${paths.length} files`,
  );
  if (directory === undefined) page.composer.quote(paths.map((it) => mention(it)).join(" "));
  page.uploaded?.(paths);
}

class UploadRow {
  /** @param {File} file */
  constructor(file) {
    this.file = file;
    this.controller = new AbortController();
    const name = visibleLine(file.name);
    this.bar = h("progress", { max: 1, value: 0, "aria-label": `Upload of ${name}` });
    this.element = h(
      "div",
      { class: "upload-row" },
      h("span", { class: "upload-name" }, name),
      this.bar,
      iconButton(`Cancel the upload of ${name}`, PATHS.close, () => this.controller.abort()),
    );
  }

  /** @param {string} session @param {string | undefined} directory */
  send(session, directory) {
    const { signal } = this.controller;
    if (signal.aborted) return Promise.reject(Object.assign(new Error(), { kind: "cancelled" }));
    const progress = (/** @type {number} */ sent) => (this.bar.value = sent);
    return uploadFile(session, this.file, directory, progress, signal);
  }
}

/** Where the files that are being sent are shown. */
function uploadPanel() {
  let panel = /** @type {HTMLElement | null} */ (document.querySelector(".uploads"));
  if (!panel) {
    panel = h("div", { class: "uploads", role: "group", "aria-label": "Uploads" });
    document.body.append(panel);
  }
  return panel;
}
