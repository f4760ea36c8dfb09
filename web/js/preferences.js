/**
 * What this browser was told to remember about itself. Nothing here is about a session's content:
 * that is the server's.
 *
 * @module
 */

/** @param {string} name */
const read = (name) => localStorage.getItem(`towpath.${name}`);

/** @param {string} name @param {string | null} value */
function write(name, value) {
  // A full or forbidden store costs the memory of a choice, nothing else.
  try {
    if (value === null) localStorage.removeItem(`towpath.${name}`);
    else localStorage.setItem(`towpath.${name}`, value);
  } catch {
    return;
  }
}

export const preferences = {
  /** `light`, `dark`, or empty for the system's. */
  get theme() { return read("theme") ?? ""; },
  set theme(theme) {
    write("theme", theme || null);
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  },
  get notify() { return read("notify") === "on"; },
  set notify(on) { write("notify", on ? "on" : null); },
  get sound() { return read("sound") === "on"; },
  set sound(on) { write("sound", on ? "on" : null); },
  get split() { return read("split") === "on"; },
  set split(on) { write("split", on ? "on" : null); },
  /** Whether changes and tasks stand beside the conversation; nothing where nobody chose. */
  get side() { return { on: true, off: false }[read("side") ?? ""]; },
  set side(on) { write("side", on === undefined ? null : on ? "on" : "off"); },
  /** Whether the machinery is shown too: agents that come and go, hooks. */
  get everything() { return read("everything") === "on"; },
  set everything(on) { write("everything", on ? "on" : null); },
};

/** Where a person was last: sessions that moved on since are unread. @param {string} session */
export function seen(session) {
  return Number(read(`seen.${session}`) ?? 0);
}

/** @param {string} session @param {number} last */
export function markSeen(session, last) {
  if (last > seen(session)) write(`seen.${session}`, String(last));
}

/** Words that were not sent yet. @param {string} session */
export function draft(session) {
  return read(`draft.${session}`) ?? "";
}

/** @param {string} session @param {string} text */
export function keepDraft(session, text) {
  write(`draft.${session}`, text || null);
}
