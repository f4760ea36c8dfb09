/**
 * Formats numbers, times and states as text.
 *
 * @module
 */

/** A duration: `0.4 s`, `12 s`, `3 min 20 s`. @param {number} milliseconds */
export function duration(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 10) return `${(Math.max(0, milliseconds) / 1000).toFixed(1)} s`;
  if (seconds < 60) return `${seconds} s`;
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${two(Math.floor(seconds / 60) % 60)} min`;
}

/** A rounded duration: `3 min`. @param {number} milliseconds */
export function roughDuration(milliseconds) {
  const minutes = Math.round(milliseconds / 60_000);
  if (minutes < 1) return `${Math.max(0, Math.round(milliseconds / 1000))} s`;
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 48 * 60) return `${Math.round(minutes / 60)} h`;
  return `${Math.round(minutes / 1440)} d`;
}

/** A date and time. @param {number} at */
export function dateTime(at) {
  return new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** The time of day, with the date if it is not today. @param {number} at */
export function clock(at) {
  const date = new Date(at);
  const time = date.toLocaleTimeString(undefined, { timeStyle: "short" });
  return date.toDateString() === new Date().toDateString()
    ? time
    : `${date.toLocaleDateString(undefined, { dateStyle: "medium" })}, ${time}`;
}

/** A short age for the sidebar: `now`, `5 min`, `3 h`, `2 d`. @param {number} at @param {number} now */
export function shortAge(at, now) {
  return now - at < 60_000 ? "now" : roughDuration(now - at);
}

/** `950`, `12k`, `1.2M`. @param {number} number */
export function compactNumber(number) {
  if (number < 1000) return String(number);
  if (number < 9950) return `${(number / 1e3).toFixed(1)}k`;
  if (number < 999_500) return `${Math.round(number / 1e3)}k`;
  return `${(number / 1e6).toFixed(1)}M`;
}

/** Dollars; small sums with more digits. @param {number} sum */
export function dollars(sum) {
  return sum > 0 && sum < 0.095 ? `$${sum.toFixed(4)}` : `$${sum.toFixed(2)}`;
}

/** @param {number} number @param {string} one @param {string} [many] */
export function plural(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}

/** The last part of a path. @param {string} path */
export function baseName(path) {
  return path.replace(/\/+$/, "").split("/").pop() || path;
}

/** A path relative to a directory that contains it. @param {string} path @param {string | null | undefined} directory */
export function relativePath(path, directory) {
  const start = directory && `${directory.replace(/\/+$/, "")}/`;
  return start && path.startsWith(start) ? path.slice(start.length) : path;
}

/**
 * The label of a permission mode.
 *
 * @param {import("../gateway.js").Mode[]} modes
 * @param {string | null | undefined} mode
 */
export function modeLabel(modes, mode) {
  return modes.find((it) => it.id === (mode || "default"))?.label ?? mode ?? "";
}

/** The short name of a model. @param {string | null | undefined} model */
export function modelName(model) {
  return (model ?? "").replace(/^claude-/, "").replace(/-\d{8}$/, "") || "default model";
}

/**
 * What a session is doing.
 *
 * @param {import("../gateway.js").Status} status
 * @param {number} now
 */
export function describePhase(status, now) {
  const { phase } = status;
  switch (phase.kind) {
    case "idle":
      return "Ready";
    case "starting":
      return "Starting the agent";
    case "working":
      return "Working";
    case "thinking":
      return phase.tokens ? `Thinking, about ${compactNumber(phase.tokens)} tokens` : "Thinking";
    case "writing":
      return "Writing";
    case "running": {
      const others = phase.others ? ` and ${plural(phase.others, "other")}` : "";
      return `Running ${[phase.tool, phase.target].filter(Boolean).join(" ")}${others}`;
    }
    case "waiting":
      return phase.requests > 1 ? `Waiting for you (${phase.requests})` : "Waiting for you";
    case "retrying": {
      const due = phase.delay_ms && status.since ? status.since + phase.delay_ms - now : 0;
      const when = due > 0 ? `in ${roughDuration(due)}` : "now";
      const attempt = `${phase.attempt ?? "?"} of ${phase.max_attempts ?? "?"}`;
      return `API error, attempt ${attempt}, retrying ${when}`;
    }
    case "compacting":
      return "Summarising the history";
    case "interrupting":
      return "Stopping";
    case "stalled":
      return `No output for ${roughDuration(phase.seconds * 1000)}`;
    case "stopped":
      return describeStop(phase.cause);
    default:
      return String(/** @type {any} */ (phase).kind);
  }
}

/**
 * Who did something, and where.
 *
 * @param {import("../gateway.js").Actor} by
 * @param {string} me the name of the user of this page
 */
export function actorText({ name, via }, me) {
  const [client, device] = via.split(/ on (.*)/s);
  const who = name === me ? "you" : name;
  return device ? `${who}, on ${device}` : `${who} (${client})`;
}

/** Whether an MCP server in this state cannot be used although it should be usable. @param {string} status */
export function isServerProblem(status) {
  return !["connected", "pending", "disabled"].includes(status);
}

/** Whether there is no agent although no user stopped it. @param {import("../gateway.js").SessionPhase} phase */
export function hasFailed(phase) {
  const harmless = ["parked", "closed", "restarted"];
  return phase.kind === "stopped" && !harmless.includes(phase.cause.cause);
}

/** @param {import("../gateway.js").StopCause} cause */
function describeStop(cause) {
  switch (cause.cause) {
    case "parked":
      return "Paused; the next message resumes it";
    case "closed":
      return "Closed; the next message starts it";
    case "restarted":
      return "Stopped for new options; the next message starts it with them";
    case "not_started":
      return `The agent could not be started: ${cause.message}`;
    case "not_ready":
      return "The agent did not start in time";
    case "exited":
      return `The agent exited with code ${cause.code}`;
    case "killed":
      return `The agent was killed by signal ${cause.signal}`;
    case "disobeyed":
      return "The agent was killed because it did not stop";
    case "lost":
      return "The agent was lost when the machine went down";
    default:
      return "No agent";
  }
}

/** A placeholder that names a shortcut, unless the device has no keys. @param {string} text @param {string} shortcut */
export function withShortcut(text, shortcut) {
  return matchMedia("(pointer: coarse)").matches ? text : `${text} (${shortcut})`;
}
