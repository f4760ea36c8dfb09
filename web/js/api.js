/**
 * Calls of the gateway's API. Every error is a `Problem` with a message that can be shown.
 *
 * @module
 */

const ROOT = "/api/v1";

/** An error response of the gateway. */
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
 * Calls the API and returns the JSON of the response.
 *
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export async function callApi(method, path, body) {
  /** @type {RequestInit} */
  const request = { method, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers = { "content-type": "application/json" };
  }
  let response;
  try {
    response = await fetch(ROOT + path, request);
  } catch {
    throw new Problem(0, "unreachable", "The server cannot be reached.", {});
  }
  const text = await response.text();
  const json = parseJson(text);
  if (response.ok) return json;
  const kind =
    String(json?.type ?? "")
      .split("#")
      .pop() || "failed";
  const message = json?.detail ?? json?.title ?? response.statusText;
  throw new Problem(response.status, kind, message, json ?? {});
}

/** @param {string} text */
function parseJson(text) {
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

/** A new id. Sending a prompt twice with the same id adds it once. */
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  // Pages that are served neither over TLS nor from this machine have no `randomUUID`.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/**
 * The API path of a session.
 *
 * @param {string} id
 * @param {string} [rest]
 */
export function sessionPath(id, rest = "") {
  return `/sessions/${encodeURIComponent(id)}${rest}`;
}

/**
 * The address of a whole line of the journal.
 *
 * @param {string} id
 * @param {number} seq
 */
export function lineAddress(id, seq) {
  return `${ROOT}${sessionPath(id)}/lines/${seq}`;
}

/**
 * The address of an image in the journal.
 *
 * @param {string} id
 * @param {number} seq
 * @param {number} number
 */
export function imageAddress(id, seq, number) {
  return `${ROOT}${sessionPath(id)}/lines/${seq}/pictures/${number}`;
}
