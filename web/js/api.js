/**
 * What the page asks of the gateway. Every refusal comes back as a `Problem`, in words that can be
 * shown.
 *
 * @module
 */

const ROOT = "/api/v1";

/** A refusal, as the gateway worded it. */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {string} kind
   * @param {string} message
   * @param {Record<string, any>} more
   */
  constructor(status, kind, message, more) {
    super(message);
    this.status = status;
    this.kind = kind;
    this.more = more;
  }
}

/**
 * Asks for something.
 *
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export async function ask(method, path, body) {
  /** @type {RequestInit} */
  const request = { method, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers = { "content-type": "application/json" };
  }
  let answer;
  try {
    answer = await fetch(ROOT + path, request);
  } catch {
    throw new Problem(0, "unreachable", "The server cannot be reached.", {});
  }
  const text = await answer.text();
  const json = parsed(text);
  if (answer.ok) return json;
  const kind = String(json?.type ?? "").split("#").pop() || "failed";
  throw new Problem(answer.status, kind, json?.detail ?? json?.title ?? answer.statusText, json ?? {});
}

/** @param {string} text */
function parsed(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

/**
 * The address of a stream.
 *
 * @param {string} path
 */
export function streamAddress(path) {
  const address = new URL(ROOT + path, location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  address.hash = "";
  return address.href;
}

/** An id made here: the same one sent twice is the same prompt. */
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  // Pages that are not served over TLS or from this machine have no `randomUUID`.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/**
 * The path of a session.
 *
 * @param {string} id
 * @param {string} [rest]
 */
export function at(id, rest = "") {
  return `/sessions/${encodeURIComponent(id)}${rest}`;
}

/**
 * The address of a picture in the journal.
 *
 * @param {string} id
 * @param {number} seq
 * @param {number} number
 */
export function pictureAddress(id, seq, number) {
  return `${ROOT}${at(id)}/lines/${seq}/pictures/${number}`;
}
