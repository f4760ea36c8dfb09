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
    return localStorage.getItem(`towpath.${name}`) ?? unstored.get(name) ?? null;
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
  /** `light`, `dark`, or empty for the system's. */
  get theme() {
    return read("theme") ?? "";
  },
  set theme(theme) {
    write("theme", theme || null);
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  },
  get notify() {
    return read("notify") === "on";
  },
  set notify(on) {
    write("notify", on ? "on" : null);
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

/** Text that was not sent yet. @param {string} session */
export function draft(session) {
  return read(`draft.${session}`) ?? "";
}

/** @param {string} session @param {string} text */
export function saveDraft(session, text) {
  write(`draft.${session}`, text || null);
}
