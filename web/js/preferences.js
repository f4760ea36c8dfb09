/**
 * Settings of this browser. Nothing here is part of a session's content, which is on the server.
 *
 * @module
 */

/**
 * What a browser that forbids or lacks storage would have stored, for as long as the page is open.
 *
 * @type {Map<string, string>}
 */
const unstored = new Map();

/** @param {string} name */
function read(name) {
  try {
    // What did not fit is newer than what is stored.
    return unstored.get(name) ?? localStorage.getItem(`towpath.${name}`);
  } catch {
    return unstored.get(name) ?? null;
  }
}

/** @param {string} name @param {string | null} value */
function write(name, value) {
  unstored.delete(name);
  try {
    if (value === null) localStorage.removeItem(`towpath.${name}`);
    else localStorage.setItem(`towpath.${name}`, value);
  } catch {
    if (value !== null) unstored.set(name, value);
  }
}

export const preferences = {
  /** `light`, `dark`, `contrast`, or empty for the system's. */
  get theme() {
    return read("theme") ?? "";
  },
  set theme(theme) {
    write("theme", theme || null);
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  },
  /** The size of text: `small`, `large`, `larger`, `largest`, or empty for the usual one. */
  get size() {
    return read("size") ?? "";
  },
  set size(size) {
    write("size", size || null);
    if (size) document.documentElement.dataset.size = size;
    else delete document.documentElement.dataset.size;
  },
  get notify() {
    return read("notify") === "on";
  },
  set notify(on) {
    write("notify", on ? "on" : null);
  },
  /** Whether the server sends messages to this browser, also while no page is open. */
  get push() {
    return read("push") === "on";
  },
  set push(on) {
    write("push", on ? "on" : null);
  },
  get sound() {
    return read("sound") === "on";
  },
  set sound(on) {
    write("sound", on ? "on" : null);
  },
  get split() {
    return read("split") === "on";
  },
  set split(on) {
    write("split", on ? "on" : null);
  },
  /** Whether the side panel is open; `undefined` if the user has not chosen. */
  get side() {
    return { on: true, off: false }[read("side") ?? ""];
  },
  set side(on) {
    write("side", on === undefined ? null : on ? "on" : "off");
  },
  /** Whether the list shows the sessions that the CLI ran without this server. */
  get others() {
    return read("others") === "on";
  },
  set others(on) {
    write("others", on ? "on" : null);
  },
  /** What Enter does while a turn runs: `steer` sends the message into the turn, `queue` after it. */
  get delivery() {
    return read("delivery") === "queue" ? "queue" : "steer";
  },
  set delivery(delivery) {
    write("delivery", delivery === "queue" ? delivery : null);
  },
  /** The agent that was chosen for the last new session; empty for the server's default. */
  get agent() {
    return read("agent") ?? "";
  },
  set agent(name) {
    write("agent", name || null);
  },
  /** Whether housekeeping items such as agent starts and hooks are shown. */
  get everything() {
    return read("everything") === "on";
  },
  set everything(on) {
    write("everything", on ? "on" : null);
  },
};

/** The last entry the user has seen; sessions with newer ones are unread. @param {string} session */
export function seen(session) {
  return Number(read(`seen.${session}`) ?? 0);
}

/** @param {string} session @param {number} last */
export function markSeen(session, last) {
  if (last > seen(session)) write(`seen.${session}`, String(last));
}

/**
 * A message that the server may not have yet. Its images are in `image-store.js`.
 *
 * @typedef {{ id: string, text: string, delivery: "queue" | "steer", images: string[] }} UnsentPrompt
 */

/**
 * What a user has written in a session and the server does not have.
 *
 * @typedef {{ text: string, images: string[], unsent: UnsentPrompt[], restored?: { id: string, text: string } }} Draft
 *   `restored` is a message that was put back into the field, which the server may have after all
 */

/** @param {string} session @returns {Draft} */
export function draft(session) {
  const stored = read(`draft.${session}`) ?? "";
  try {
    const parsed = JSON.parse(stored || "null");
    if (Array.isArray(parsed?.unsent)) return { text: "", images: [], ...parsed };
  } catch {
    // Earlier versions stored the text alone.
  }
  return { text: stored, images: [], unsent: [] };
}

/** Changes some of a draft. @param {string} session @param {Partial<Draft>} changes */
export function saveDraft(session, changes) {
  const now = { ...draft(session), ...changes };
  const any = now.text || now.images.length || now.unsent.length || now.restored;
  write(`draft.${session}`, any ? JSON.stringify(now) : null);
}

/** The keys of the images of all drafts. */
export function draftImageKeys() {
  const names = [...unstored.keys()].map((it) => `towpath.${it}`);
  try {
    names.push(...Object.keys(localStorage));
  } catch {
    // There is no storage.
  }
  const drafts = names
    .filter((it) => it.startsWith("towpath.draft."))
    .map((it) => draft(it.slice("towpath.draft.".length)));
  return new Set(drafts.flatMap((it) => [...it.images, ...it.unsent.flatMap((one) => one.images)]));
}

/** A file that was edited and not saved, as text. @param {string} session @param {string} path */
export function fileDraft(session, path) {
  return read(`file.${session}.${path}`) ?? "";
}

/** @param {string} session @param {string} path @param {string} text */
export function saveFileDraft(session, path, text) {
  write(`file.${session}.${path}`, text || null);
}
