/**
 * Numbers, times and states in words.
 *
 * @module
 */

/** A time span: `0.4 s`, `12 s`, `3 min 20 s`. @param {number} milliseconds */
export function span(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 10) return `${(Math.max(0, milliseconds) / 1000).toFixed(1)} s`;
  if (seconds < 60) return `${seconds} s`;
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${two(Math.floor(seconds / 60) % 60)} min`;
}

/** The same in whole, rounded words: `3 min`. @param {number} milliseconds */
export function about(milliseconds) {
  const minutes = Math.round(milliseconds / 60_000);
  if (minutes < 1) return `${Math.max(0, Math.round(milliseconds / 1000))} s`;
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 48 * 60) return `${Math.round(minutes / 60)} h`;
  return `${Math.round(minutes / 1440)} d`;
}

/** A moment for a person. @param {number} at */
export function ago(at) {
  return new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** The time of day, with the date where that is another. @param {number} at */
export function clock(at) {
  const date = new Date(at);
  const time = date.toLocaleTimeString(undefined, { timeStyle: "short" });
  return date.toDateString() === new Date().toDateString() ? time : `${date.toLocaleDateString(undefined, { dateStyle: "medium" })}, ${time}`;
}

/** Short, for the rail: `now`, `5 min`, `3 h`, `2 d`. @param {number} at @param {number} now */
export function since(at, now) {
  return now - at < 60_000 ? "now" : about(now - at);
}

/** `950`, `12k`, `1.2M`. @param {number} number */
export function count(number) {
  if (number < 1000) return String(number);
  if (number < 9950) return `${(number / 1e3).toFixed(1)}k`;
  if (number < 999_500) return `${Math.round(number / 1e3)}k`;
  return `${(number / 1e6).toFixed(1)}M`;
}

/** Dollars; small sums with the digits that matter. @param {number} sum */
export function dollars(sum) {
  return sum > 0 && sum < 0.095 ? `$${sum.toFixed(4)}` : `$${sum.toFixed(2)}`;
}

/** @param {number} number @param {string} one @param {string} [many] */
export function several(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}

/** The last part of a path. @param {string} path */
export function base(path) {
  return path.replace(/\/+$/, "").split("/").pop() || path;
}

/** A path as it is called from a directory on. @param {string} path @param {string | undefined} directory */
export function within(path, directory) {
  const start = directory && `${directory.replace(/\/+$/, "")}/`;
  return start && path.startsWith(start) ? path.slice(start.length) : path;
}

/** The permission modes, in the order Shift+Tab goes through them. */
export const MODES = [
  { value: "default", name: "Ask each time", about: "Edits and commands need your word" },
  { value: "acceptEdits", name: "Accept edits", about: "Edits go through, commands ask" },
  { value: "plan", name: "Plan", about: "Looks and plans, changes nothing" },
  { value: "bypassPermissions", name: "Never ask", about: "Everything goes through" },
];

/** @param {string | undefined} mode */
export function modeName(mode) {
  return MODES.find((it) => it.value === (mode || "default"))?.name ?? mode ?? "";
}

/** A model's name without what everybody knows. @param {string | undefined} model */
export function modelName(model) {
  return (model ?? "").replace(/^claude-/, "").replace(/-\d{8}$/, "") || "default model";
}

/** What a session does, in words. @param {import("./gateway.js").Status} status @param {number} now */
export function doing(status, now) {
  const { phase } = status;
  const tool = [phase.tool, phase.target].filter(Boolean).join(" ");
  const others = phase.others ? ` and ${several(phase.others, "other")}` : "";
  switch (phase.is) {
    case "idle": return "Ready";
    case "starting": return "Starting the agent";
    case "working": return "Working";
    case "thinking": return phase.tokens ? `Thinking, about ${count(phase.tokens)} tokens` : "Thinking";
    case "writing": return "Writing";
    case "running": return `Running ${tool}${others}`;
    case "waiting": return phase.requests && phase.requests > 1 ? `Waits for you (${phase.requests})` : "Waits for you";
    case "retrying": {
      const left = phase.delay_ms && status.since ? Math.max(0, status.since + phase.delay_ms - now) : 0;
      return `The API failed (${phase.attempt ?? "?"} of ${phase.of ?? "?"}), again ${left ? `in ${about(left)}` : "now"}`;
    }
    case "compacting": return "Summarising the history";
    case "interrupting": return "Stopping";
    case "stalled": return `Silent for ${about((phase.seconds ?? 0) * 1000)}`;
    case "gone": return gone(phase.why);
    default: return String(/** @type {any} */ (phase).is);
  }
}

/** @param {import("./gateway.js").Phase["why"]} why */
function gone(why) {
  switch (why?.cause) {
    case "parked": return "Resting; the next prompt wakes it";
    case "closed": return "Closed; the next prompt starts it";
    case "not_started": return `The agent could not be started: ${why.message ?? ""}`;
    case "not_ready": return "The agent did not answer in time";
    case "exited": return `The agent exited with code ${why.code}`;
    case "killed": return `The agent was ended by signal ${why.signal}`;
    case "disobeyed": return "The agent was ended because it did not stop";
    case "lost": return "The agent was lost with its machine";
    default: return "No agent";
  }
}
