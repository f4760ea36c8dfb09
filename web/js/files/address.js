/**
 * Paths of files in addresses of the page and of the API.
 *
 * @module
 */

import { sessionPath } from "../api.js";

/**
 * The address of a file, or of the view without one.
 *
 * @param {string} session
 * @param {string} [path] relative to the session's directory
 * @param {number} [line]
 */
export function filesAddress(session, path = "", line = 0) {
  return `#/s/${session}/files${path && `/${encodePath(path)}`}${line ? `:${line}` : ""}`;
}

/** @param {string} path */
function encodePath(path) {
  return path.split("/").map(encodeURIComponent).join("/");
}

/** What follows the view's name in an address. @param {string} rest */
export function parseAddress(rest) {
  // A colon in a name is encoded, so this one is not a part of it.
  const [, path, line] = /^(.*?)(?::(\d+))?$/s.exec(rest) ?? [];
  try {
    return { path: decodeURIComponent(path ?? ""), line: Number(line ?? 0) };
  } catch {
    return { path: path ?? "", line: 0 };
  }
}

/**
 * The API path of something about a file.
 *
 * @param {string} session
 * @param {string} what
 * @param {Record<string, string | number | boolean | undefined>} query
 */
export function filesPath(session, what, query) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== false) parameters.set(name, String(value));
  return sessionPath(session, `/files${what}${parameters.size ? `?${parameters}` : ""}`);
}

/** @param {string} directory @param {string} name */
export function joinPath(directory, name) {
  return directory ? `${directory}/${name}` : name;
}

/** The directory of a path. @param {string} path */
export function parentPath(path) {
  return path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
}

/** A path as agents read it in a message. @param {string} path @param {number} [line] */
export function mention(path, line = 0) {
  const place = line ? `${path}#L${line}` : path;
  return /\s/.test(place) ? `@"${place}"` : `@${place}`;
}
