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
 * @param {AbortSignal} [signal] cancels it
 * @returns {Promise<any>}
 */
export async function callApi(method, path, body, signal) {
  /** @type {RequestInit} */
  const request = { method, credentials: "same-origin", cache: "no-store", signal };
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
  const json = parseJson(await response.text().catch(() => ""));
  if (response.ok) return json;
  throw toProblem(response, json);
}

/**
 * The error that a response reports.
 *
 * @param {Response} response
 * @param {any} json
 */
export function toProblem(response, json) {
  const kind =
    String(json?.type ?? "")
      .split("#")
      .pop() || "failed";
  const message = json?.detail ?? json?.title ?? response.statusText;
  return new Problem(response.status, kind, message, json ?? {});
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
 * The model of a phone. Browsers that no longer have it in their `User-Agent` say it when asked.
 *
 * @returns {Promise<string | undefined>}
 */
export async function deviceModel() {
  const { userAgentData } = /** @type {any} */ (navigator);
  const values = await userAgentData?.getHighEntropyValues?.(["model"])?.catch(() => undefined);
  return values?.model || undefined;
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
 * Requests something only if it has changed. Returns nothing if it has not.
 *
 * @param {string} path
 * @param {string | null} tag of what is known
 * @returns {Promise<{ json: any, tag: string | null } | undefined>}
 */
export async function readIfChanged(path, tag) {
  const headers = tag ? { "if-none-match": tag } : undefined;
  let response, text;
  try {
    response = await fetch(ROOT + path, { credentials: "same-origin", cache: "no-store", headers });
    text = await response.text();
  } catch {
    throw new Problem(0, "unreachable", "The server cannot be reached.", {});
  }
  if (response.status === 304) return undefined;
  const json = parseJson(text);
  if (!response.ok) throw toProblem(response, json);
  return { json, tag: response.headers.get("etag") };
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
 * The address of a session as one HTML file.
 *
 * @param {string} id
 * @param {boolean} output whether it has the output of tools
 */
export function exportAddress(id, output) {
  return `${ROOT}${sessionPath(id)}/export?output=${output}`;
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
