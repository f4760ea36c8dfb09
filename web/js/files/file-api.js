/**
 * Calls of the gateway that send or receive files.
 *
 * @module
 */

import { callApi, Problem, toProblem } from "../api.js";
import { filesPath } from "./address.js";

/** @typedef {import("../gateway.js").FileView} FileView */
/** @typedef {import("../gateway.js").FileList} FileList */

const ROOT = "/api/v1";

/** The server takes no larger file. */
const MAX_UPLOAD_BYTES = 1024 ** 3;

/** @param {string} session @param {string} path @param {string | null} [after] @returns {Promise<FileList>} */
export function listDirectory(session, path, after) {
  return callApi("GET", filesPath(session, "/list", { path, after: after ?? undefined }));
}

/** @param {string} session @param {string} path @param {{ offset?: number, preview?: boolean }} [more] @returns {Promise<FileView>} */
export function viewFile(session, path, more = {}) {
  return callApi("GET", filesPath(session, "/view", { path, ...more }));
}

/** The address of a file's bytes. @param {string} session @param {string} path @param {{ download?: boolean }} [more] */
export function contentAddress(session, path, more = {}) {
  return ROOT + filesPath(session, "/content", { path, download: more.download });
}

/** The text of a file and its tag. @param {string} session @param {string} path */
export async function readText(session, path) {
  const response = await send(contentAddress(session, path), {});
  const bytes = await response.arrayBuffer();
  // A mark at the beginning is a part of the file, and stays.
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  return { text, tag: (response.headers.get("etag") ?? "").replaceAll('"', "") };
}

/**
 * Saves a file that still has the content with this tag, or creates one.
 *
 * @param {string} session
 * @param {string} path
 * @param {string} text
 * @param {string | null} tag
 * @returns {Promise<string>} the tag of the new content
 */
export async function saveText(session, path, text, tag) {
  /** @type {Record<string, string>} */
  const condition = tag === null ? { "if-none-match": "*" } : { "if-match": `"${tag}"` };
  const response = await send(ROOT + filesPath(session, "/content", { path }), {
    method: "PUT",
    body: new Blob([text]),
    headers: { "content-type": "application/octet-stream", ...condition },
  });
  return (await response.json()).tag;
}

/**
 * What saving a text would change.
 *
 * @param {string} session
 * @param {string} path
 * @param {string} text
 * @returns {Promise<import("../gateway.js").FileComparison>}
 */
export async function compareText(session, path, text) {
  const response = await send(ROOT + filesPath(session, "/compare", { path }), {
    method: "POST",
    body: new Blob([text]),
    headers: { "content-type": "application/octet-stream" },
  });
  return response.json();
}

/** @param {string} address @param {RequestInit} request */
async function send(address, request) {
  let response;
  try {
    response = await fetch(address, { credentials: "same-origin", cache: "no-store", ...request });
  } catch {
    throw new Problem(0, "unreachable", "The server cannot be reached.", {});
  }
  if (response.ok) return response;
  throw toProblem(response, await response.json().catch(() => null));
}

/**
 * Sends a file. Only an `XMLHttpRequest` says how much was sent.
 *
 * @param {string} session
 * @param {File} file
 * @param {string | undefined} directory where it goes; without one, where the agent may read it
 * @param {(sent: number) => void} progress from 0 to 1
 * @param {AbortSignal} signal cancels it
 * @returns {Promise<string>} its path
 */
export function uploadFile(session, file, directory, progress, signal) {
  if (file.size > MAX_UPLOAD_BYTES)
    return Promise.reject(new Problem(413, "too-large", "It is larger than 1 GB.", {}));
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    // A name with a backslash is one name.
    const name = file.name.replaceAll("\\", "\\\\");
    request.open("POST", ROOT + filesPath(session, "", { name, directory }));
    request.setRequestHeader("content-type", "application/octet-stream");
    request.responseType = "json";
    request.upload.onprogress = (event) => progress(event.total ? event.loaded / event.total : 0);
    request.onload = () => {
      if (request.status === 201) resolve(request.response.path);
      else
        reject(
          toProblem(
            /** @type {any} */ ({ status: request.status, statusText: request.statusText }),
            request.response,
          ),
        );
    };
    const failed = () =>
      reject(new Problem(0, "unreachable", "The connection was lost, or the file changed.", {}));
    request.onerror = failed;
    request.onabort = () => reject(new Problem(0, "cancelled", "Cancelled.", {}));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

/** @param {string} session @param {string} path */
export function createDirectory(session, path) {
  return callApi("POST", filesPath(session, "/directories", {}), { path });
}

/** @param {string} session @param {string} path @param {string} to */
export function renameFile(session, path, to) {
  return callApi("PATCH", filesPath(session, "", {}), { path, to });
}

/** @param {string} session @param {string} path */
export function deleteFile(session, path) {
  return callApi("DELETE", filesPath(session, "", { path, recursive: true }));
}
