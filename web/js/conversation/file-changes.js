/**
 * The changes of a file, turn by turn.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { addDiffTools } from "./diffs.js";
import { filesAddress } from "../files/address.js";
import { fill, h } from "../ui/elements.js";
import { openDialog } from "../dialogs/dialogs.js";
import { htmlNodes } from "../ui/trusted-html.js";
import { relativePath } from "../ui/format.js";

/** @typedef {import("../gateway.js").FileDiff} FileDiff */
/** @typedef {{ path: string, number: string, sign: string, text: string }} DiffLine A line of a file's diff. */

/** With more turns the address of a file stands for all of them. */
const MAX_TURNS_IN_ADDRESS = 20;

/** How many turns are cached. */
const MAX_TURNS = 40;

/** Finished turns do not change, so they are requested once. @type {Map<string, Promise<FileDiff[]>>} */
const cache = new Map();

/**
 * The files a turn changed, with their changes.
 *
 * @param {string} session
 * @param {number} turn
 * @param {boolean} ended
 * @returns {Promise<FileDiff[]>}
 */
export function filesOf(session, turn, ended) {
  const key = `${session} ${turn}`;
  const files =
    cache.get(key) ??
    callApi("GET", sessionPath(session, `/turns/${turn}/files`)).then((response) => response.files);
  if (ended) cache.set(key, files);
  if (cache.size > MAX_TURNS) cache.delete(cache.keys().next().value ?? "");
  files.catch(() => cache.delete(key));
  return files;
}

/**
 * Shows the changes of a file, those of the last turn first.
 *
 * @param {import("../session-page.js").SessionPage} page
 * @param {string} path
 * @param {number[]} turns
 * @param {string} [address] with which it was opened
 */
export async function openFile(page, path, turns, address = fileAddress(path, turns)) {
  const name = relativePath(path, page.conversation?.head.cwd);
  const place = h("div", { class: "item" }, h("p", {}, "…"));
  // A path that is still absolute is outside of the session's directory.
  const open =
    page.canDrive &&
    !name.startsWith("/") &&
    h(
      "a",
      { class: "button", href: filesAddress(page.id, name.replaceAll("\\", "\\\\")) },
      "Open in Files",
    );
  const foot = open ? [open] : undefined;
  openDialog({ title: name, address: `file/${address}`, class: "wide", body: [place], foot });
  const ended = (/** @type {number} */ turn) =>
    Boolean(page.conversation?.turns.get(turn)?.end ?? !page.conversation?.turns.has(turn));
  try {
    const newest = [...turns].sort((a, b) => b - a);
    const changes = await Promise.all(
      newest.map(async (turn) => ({
        turn,
        file: (await filesOf(page.id, turn, ended(turn))).find((it) => it.path === path),
      })),
    );
    fill(
      place,
      ...changes.flatMap(({ turn, file }) =>
        file
          ? [
              h(
                "h3",
                { class: "of-turn" },
                `Turn ${turn}`,
                h(
                  "span",
                  { class: "delta" },
                  h("ins", {}, `+${file.added}`),
                  h("del", {}, `−${file.removed}`),
                ),
              ),
              htmlNodes(file.html),
            ]
          : [],
      ),
    );
    if (!place.firstChild) fill(place, h("p", {}, "No change of this file succeeded."));
  } catch (problem) {
    fill(place, h("p", { class: "form-error" }, /** @type {Error} */ (problem).message));
  }
  for (const diff of place.querySelectorAll(".diff")) {
    addDiffTools(
      /** @type {HTMLElement} */ (diff),
      page.canDrive
        ? (line) => {
            document.querySelectorAll("dialog").forEach((it) => it.close());
            void page.comment({ path, ...line });
          }
        : undefined,
    );
  }
}

/** @param {string} path @param {number[]} turns */
function fileAddress(path, turns) {
  const numbers = turns.length <= MAX_TURNS_IN_ADDRESS ? `/${turns.join(".")}` : "";
  return encodeURIComponent(path) + numbers;
}

/**
 * Quotes a line for the composer.
 *
 * @param {DiffLine} line
 * @param {string} directory
 * @param {string} before the text that is already in the composer
 */
export function quoteLine({ path, number, sign, text }, directory, before) {
  return `${before.trim() ? "\n" : ""}${relativePath(path, directory)}${number ? `:${number}` : ""}\n> ${sign}${text}\n`;
}
