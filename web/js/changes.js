/**
 * What a session did to files: the changes of one file, turn by turn.
 *
 * @module
 */

import { ask, at } from "./api.js";
import { addDiffTools } from "./diffs.js";
import { fill, h } from "./elements.js";
import { openSheet } from "./sheets.js";
import { nodes } from "./trusted.js";
import { within } from "./words.js";

/** @typedef {import("./gateway.js").ChangedFile} ChangedFile */
/** @typedef {{ path: string, number: string, sign: string, text: string }} Commented */

/** So many turns are kept. */
const KEPT = 40;

/** Turns that ended change no more, so they are asked for once. @type {Map<string, Promise<ChangedFile[]>>} */
const known = new Map();

/**
 * The files a turn changed, with their changes.
 *
 * @param {string} session
 * @param {number} turn
 * @param {boolean} ended
 * @returns {Promise<ChangedFile[]>}
 */
export function filesOf(session, turn, ended) {
  const key = `${session} ${turn}`;
  const asked = known.get(key) ?? ask("GET", at(session, `/turns/${turn}/files`)).then((told) => told.files);
  if (ended) known.set(key, asked);
  if (known.size > KEPT) known.delete(known.keys().next().value ?? "");
  asked.catch(() => known.delete(key));
  return asked;
}

/**
 * Opens the changes of a file, those of the last turn first.
 *
 * @param {import("./session.js").SessionPage} page
 * @param {string} path
 * @param {number[]} turns
 */
export async function openFile(page, path, turns) {
  const name = within(path, page.conversation?.head.cwd);
  const place = h("div", { class: "item" }, h("p", {}, "…"));
  openSheet({ title: name, class: "wide", body: [place] });
  const ended = (/** @type {number} */ turn) => Boolean(page.conversation?.turns.get(turn)?.end ?? !page.conversation?.turns.has(turn));
  try {
    const newest = [...turns].sort((a, b) => b - a);
    const told = await Promise.all(newest.map(async (turn) => ({ turn, file: (await filesOf(page.id, turn, ended(turn))).find((it) => it.path === path) })));
    fill(place, ...told.flatMap(({ turn, file }) => file ? [
      h("h3", { class: "of-turn" }, `Turn ${turn}`, h("span", { class: "delta" }, h("ins", {}, `+${file.added}`), h("del", {}, `−${file.removed}`))), nodes(file.html),
    ] : []));
    if (!place.firstChild) fill(place, h("p", {}, "No change of it went through."));
  } catch (problem) {
    fill(place, h("p", { class: "complaint" }, /** @type {Error} */ (problem).message));
  }
  for (const diff of place.querySelectorAll(".diff")) {
    addDiffTools(/** @type {HTMLElement} */ (diff), page.drives ? (line) => {
      document.querySelectorAll("dialog").forEach((it) => it.close());
      void page.comment({ path, ...line });
    } : undefined);
  }
}

/**
 * A line as it is put behind what is written already, for a person to say something about it.
 *
 * @param {Commented} line
 * @param {string} directory
 * @param {string} written
 */
export function quoted({ path, number, sign, text }, directory, written) {
  return `${written.trim() ? "\n" : ""}${within(path, directory)}${number ? `:${number}` : ""}\n> ${sign}${text}\n`;
}
