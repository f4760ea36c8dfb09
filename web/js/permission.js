/**
 * May this tool be used? The card shows exactly what would be done, and what "remember" would mean.
 *
 * @module
 */

import { given, inside, keyButton } from "./card.js";
import { h } from "./elements.js";

/** @typedef {import("./gateway.js").Request} Request */

const VERBS = /** @type {Record<string, string>} */ ({ run: "run", write: "write", edit: "edit", read: "read", fetch: "fetch", search_web: "search the web for", search: "search" });

/**
 * @param {Request} request
 * @param {(answer: import("./asks.js").Answer) => Promise<void>} answer
 * @param {() => void} leave
 * @returns {import("./asks.js").Card}
 */
export function permissionCard(request, answer, leave) {
  const input = given(request);
  const pattern = h("input", { type: "text", value: suggestion(input), placeholder: "all its calls", "aria-label": "Which calls of the tool", spellcheck: "false", autocapitalize: "off" });
  const length = h("select", { "aria-label": "For how long" },
    h("option", { value: "" }, "while it lasts"), h("option", { value: "1800" }, "30 minutes"), h("option", { value: "28800" }, "8 hours"));
  const reach = h("select", { "aria-label": "Where" }, h("option", { value: "session" }, "this session"), h("option", { value: "directory" }, "this directory"));
  const rule = h("div", { class: "request-rule", hidden: true }, `Remember ${request.tool}:`, pattern, "for", length, "in", reach);
  const reason = h("input", { type: "text", placeholder: "What should it do instead?", "aria-label": "Why not" });
  const why = h("form", { class: "request-why", hidden: true, onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    deny(reason.value.trim());
  } }, reason, h("button", { type: "submit", class: "button bad" }, "Deny and tell"));

  const allow = () => void answer({ decision: "allow" });
  const deny = (/** @type {string} */ message) => void answer({ decision: "deny", message: message || "The user said no." });
  const remember = () => {
    if (rule.hidden) {
      rule.hidden = false;
      always.firstChild?.replaceWith("Allow and remember this");
      return;
    }
    const until = length.value ? Date.now() + Number(length.value) * 1000 : undefined;
    void answer({ decision: "allow", remember: { pattern: pattern.value.trim() || undefined, until, reach: reach.value } });
  };
  const tell = () => {
    why.hidden = false;
    reason.focus();
  };
  const always = keyButton("Allow and remember…", "a", "", remember);
  reason.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    why.hidden = true;
    /** @type {HTMLElement | null} */ (body.closest(".request"))?.focus();
  });

  const body = h("div", { class: "request-inner" },
    h("div", { class: "request-body", tabindex: "0", role: "region", "aria-label": "What it would do" }, ...shown(request, input)),
    h("div", { class: "request-actions" },
      keyButton("Allow once", "y", "primary", allow), always, h("span", { class: "room" }),
      keyButton("Deny", "n", "bad", () => deny("")), keyButton("Deny, and say why", "d", "quiet", tell)),
    rule, why);
  const keys = /** @type {Record<string, () => void>} */ ({ y: allow, a: remember, n: () => deny(""), d: tell, Escape: leave });
  return { title: title(request), body, key: (event) => {
    const act = keys[event.key];
    if (act) act();
    return Boolean(act);
  } };
}

/** @param {Request} request */
function title(request) {
  const verb = VERBS[request.verb];
  if (request.verb === "run") return request.description || "It wants to run a command";
  return verb && request.target ? `It wants to ${verb} ${request.target.split("/").pop()}` : `It wants to use ${request.tool}`;
}

/** @param {Request} request @param {Record<string, any>} input */
function shown(request, input) {
  /** @type {import("./elements.js").Child[]} */ const parts = [];
  const why = request.reason ?? (request.blocked_path ? `It asks because of ${request.blocked_path}` : "");
  if (request.verb === "run" && typeof input.command === "string") parts.push(h("pre", { class: "given command" }, input.command));
  else if (request.html) {
    if (request.target) parts.push(h("dl", {}, h("dt", {}, "File"), h("dd", {}, request.target)));
    parts.push(h("div", { class: "item" }, inside(request.html)));
  } else {
    const rows = Object.entries(input).map(([name, value]) => [h("dt", {}, name), h("dd", {}, typeof value === "string" ? value : JSON.stringify(value, null, 2))]);
    parts.push(rows.length ? h("dl", {}, ...rows.flat()) : h("p", { class: "why" }, request.target ?? ""));
  }
  if (why) parts.push(h("p", { class: "why" }, why));
  parts.push(h("details", {}, h("summary", {}, "Exact input"), h("pre", { class: "given" }, JSON.stringify(input, null, 2))));
  return parts;
}

/**
 * What to remember, if nobody says otherwise. A command that does more than one thing is only covered
 * by its exact words.
 *
 * @param {Record<string, any>} input
 */
function suggestion(input) {
  const path = input.file_path ?? input.notebook_path ?? input.path;
  if (typeof input.command === "string") {
    const plain = /^[\w./@:+,% -]+$/.test(input.command);
    return plain ? `${input.command.trim().split(/\s+/).slice(0, 2).join(" ")}:*` : input.command;
  }
  if (typeof path === "string" && path.includes("/")) return `${path.slice(0, path.lastIndexOf("/"))}/**`;
  if (typeof input.url === "string" && URL.canParse(input.url)) return `domain:${new URL(input.url).hostname}`;
  return "";
}
