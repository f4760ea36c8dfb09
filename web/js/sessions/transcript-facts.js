/**
 * What is said about a session of the CLI in one line.
 *
 * @module
 */

import { dollars } from "../ui/format.js";

/** Longer titles are cut: a user does not read them in a line, and the browser would lay them out. */
const MAX_TITLE = 300;

/** @param {string | null | undefined} title */
export function shortTitle(title) {
  const text = (title ?? "").slice(0, 4 * MAX_TITLE).trim();
  return [...text].slice(0, MAX_TITLE).join("") || "Untitled session";
}

/** The size and the costs. @param {import("../gateway.js").Transcript} transcript */
export function transcriptFacts({ size, cost }) {
  return [byteSize(size), cost ? dollars(cost) : ""].filter(Boolean).join(" · ");
}

/** @param {import("../gateway.js").Transcript} transcript */
export function branchName({ branch }) {
  return branch?.slice(0, MAX_TITLE) ?? "";
}

/** `512 B`, `12 kB`, `1.2 MB`. @param {number} bytes */
function byteSize(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 999_500) return `${Math.round(bytes / 1e3)} kB`;
  return bytes < 999.5e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}
