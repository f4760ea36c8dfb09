/**
 * What is done with the files that a session changes: nothing, what the server does by default, or
 * something of its own. And what was done so far.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { fill, h } from "../ui/elements.js";
import { clock, plural } from "../ui/format.js";
import { visibleLine } from "../ui/visible-text.js";
import { OptionFields } from "./option-fields.js";

/** @typedef {import("../gateway.js").WatchConfig} WatchConfig */
/** @typedef {import("../gateway.js").WatchTarget} WatchTarget */
/** @typedef {import("../gateway.js").WatchLogLine & { kind?: string, path?: string | null, commit?: string | null }} WatchLogLine */
/** `usual` is what the server does by default. @typedef {import("../gateway.js").WatchResponse & { usual?: WatchConfig | null, inherited?: boolean }} WatchState */

/** How many lines of the log are shown before *Show all*. */
const MAX_LINES = 30;
const KINDS = /** @type {Record<string, string>} */ ({
  commit: "Commit",
  sync: "Copy",
  hook: "Hook",
  error: "Error",
});

/** The fields of a configuration of its own. @param {boolean} admin */
function describeFields(admin) {
  const field = (
    /** @type {string} */ name,
    /** @type {string} */ kind,
    /** @type {string} */ help,
    /** @type {object} */ more = {},
  ) => ({ name, flag: name, kind, help, role: "drive", effect: "live", settable: true, ...more });
  const hook = { role: "admin", settable: admin };
  return /** @type {import("../gateway.js").OptionResponse[]} */ ([
    field("commit", "choice", "Commits just the files that the agent changed.", {
      choices: ["turn", "change"],
    }),
    field("branch", "text", "Commits go to this branch; `{session}` stands for the session."),
    field("copy_to", "list", "Directories, or addresses such as `https://…` (role admin)."),
    field("scan", "switch", "Also finds files that shell commands changed."),
    field(
      "before_hook",
      "text",
      "A program that runs before a file changes; it can forbid it.",
      hook,
    ),
    field("after_hook", "text", "A program that runs after a file has changed.", hook),
    field("turn_hook", "text", "A program that runs at the end of a turn.", hook),
    field("gitbutler", "switch", "Runs the hooks of GitButler.", hook),
  ]);
}

export class WatchSection {
  /** @param {WatchState} state @param {import("../session-page.js").SessionPage} page @param {() => void} changed */
  constructor(state, page, changed) {
    this.state = state;
    this.session = page.id;
    const { me } = page.app;
    this.fields = new OptionFields(describeFields(me.role === "admin"), {
      me,
      bypassAllowed: false,
      refuse: () => (page.canDrive ? undefined : "Your role can only watch."),
    });
    this.fields.initialise(toValues(state.inherited ? null : (state.config ?? null)));
    this.initial = state.inherited ? "inherit" : state.config ? "own" : "off";
    this.own = h(
      "div",
      { class: "option-list", hidden: true },
      ...[...this.fields.byName.values()].map((it) => it.element),
    );
    const radios = [
      this.#radio("off", "Nothing", "Changed files stay as the agent left them"),
      state.usual !== undefined &&
        this.#radio("inherit", "What the server does by default", summary(state.usual)),
      this.#radio("own", "Something of its own", "Commits, copies and programs for this session"),
    ];
    this.choice = h(
      "fieldset",
      { class: "radio-fields", disabled: !page.canDrive },
      h("legend", {}, "What is done with changed files"),
      ...radios,
    );
    this.choice.addEventListener("change", () => {
      this.own.hidden = this.chosen !== "own";
      changed();
    });
    this.own.hidden = this.initial !== "own";
    this.element = h(
      "section",
      { class: "watch-section" },
      h("h3", {}, "Acting on changes"),
      this.choice,
      this.own,
      log(state.log),
    );
  }

  /** @param {string} value @param {string} name @param {string} about */
  #radio(value, name, about) {
    const checked = this.initial === value;
    return h(
      "label",
      { class: "radio-field" },
      h("input", { type: "radio", name: "watch", value, checked }),
      h("span", {}, name, h("small", {}, about)),
    );
  }

  get chosen() {
    const checked = this.choice.querySelector("input:checked");
    return checked instanceof HTMLInputElement ? checked.value : this.initial;
  }

  isChanged() {
    return (
      this.chosen !== this.initial ||
      (this.chosen === "own" && this.fields.changedNames().length > 0)
    );
  }

  async save() {
    const { chosen } = this;
    await callApi("PATCH", sessionPath(this.session, "/settings"), {
      watch: chosen === "off" ? null : chosen === "inherit" ? "inherit" : this.#config(),
    });
  }

  /** The configuration of its own. What has no field here stays as it is. @returns {WatchConfig} */
  #config() {
    const before = this.state.inherited ? {} : (this.state.config ?? {});
    const value = (/** @type {string} */ name) => {
      const field = this.fields.byName.get(name);
      return field && !field.refusal ? field.read() : undefined;
    };
    const text = (/** @type {string} */ name, /** @type {string | null | undefined} */ kept) =>
      value(name) === undefined ? kept : /** @type {string | null} */ (value(name));
    const every = /** @type {import("../gateway.js").Trigger | null} */ (value("commit"));
    const hooks = before.hooks ?? {};
    return {
      ...before,
      commit: every ? { ...before.commit, every, branch: text("branch", null) } : null,
      targets: /** @type {string[]} */ (value("copy_to") ?? []).map((it) =>
        readTarget(it, before.targets ?? []),
      ),
      scan: value("scan") === true,
      hooks: {
        ...hooks,
        pre: text("before_hook", hooks.pre),
        post: text("after_hook", hooks.post),
        stop: text("turn_hook", hooks.stop),
        gitbutler: (value("gitbutler") ?? hooks.gitbutler) === true,
      },
    };
  }
}

/** @param {WatchConfig | null} config */
function toValues(config) {
  return {
    commit: config?.commit?.every ?? (config?.commit ? "turn" : null),
    branch: config?.commit?.branch ?? null,
    copy_to: config?.targets?.length ? config.targets.map(formatTarget) : null,
    scan: config?.scan ? true : null,
    before_hook: config?.hooks?.pre ?? null,
    after_hook: config?.hooks?.post ?? null,
    turn_hook: config?.hooks?.stop ?? null,
    gitbutler: config?.hooks?.gitbutler ? true : null,
  };
}

/** @param {WatchTarget} target */
function formatTarget(target) {
  if (target.kind === "directory") return target.path;
  return target.kind === "address" ? target.url : `$ ${target.line}`;
}

/** @param {string} text @param {WatchTarget[]} known @returns {WatchTarget} */
function readTarget(text, known) {
  const kept = known.find((it) => formatTarget(it) === text);
  if (kept) return kept;
  if (text.startsWith("$ ")) return { kind: "command", line: text.slice(2) };
  return text.includes("://") ? { kind: "address", url: text } : { kind: "directory", path: text };
}

/** What a configuration does, in words. @param {WatchConfig | null} config */
function summary(config) {
  if (!config) return "Nothing: the server was started without it";
  const { commit, targets = [], hooks = {} } = config;
  const branch = commit?.branch ? ` to ${visibleLine(commit.branch)}` : "";
  const parts = [
    commit && `commits ${commit.every === "change" ? "each change" : "after each turn"}${branch}`,
    targets.length > 0 && `copies to ${targets.map(formatTarget).map(visibleLine).join(", ")}`,
    (hooks.pre || hooks.post || hooks.stop) && "runs programs",
    hooks.gitbutler && "runs the hooks of GitButler",
  ].filter(Boolean);
  const text = parts.join(", ") || "nothing";
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** What was done, the newest first. @param {WatchLogLine[]} lines */
function log(lines) {
  const newest = [...lines].reverse();
  const list = h("ol", { class: "watch-log" });
  const place = h("div", {});
  const show = (/** @type {number} */ number) => {
    fill(list, ...newest.slice(0, number).map(row));
    fill(
      place,
      newest.length > number &&
        h(
          "button",
          { type: "button", class: "button quiet", onclick: () => show(newest.length) },
          `Show ${newest.length - number} more`,
        ),
    );
  };
  show(MAX_LINES);
  const errors = lines.filter((it) => kindOf(it) === "error").length;
  return h(
    "details",
    { class: "watch-history", open: errors > 0 },
    h(
      "summary",
      {},
      lines.length
        ? `Log: ${plural(lines.length, "entry", "entries")}`
        : "Log: nothing was done yet",
      errors > 0 && h("span", { class: "count problem" }, plural(errors, "error")),
    ),
    list,
    place,
  );
}

/** @param {WatchLogLine} line */
function kindOf(line) {
  return line.kind ?? (line.error ? "error" : "");
}

/** @param {WatchLogLine} line */
function row(line) {
  const { at, text, path, commit } = line;
  const kind = kindOf(line);
  return h(
    "li",
    { class: kind },
    h("span", { class: "kind" }, KINDS[kind] ?? kind),
    h(
      "span",
      { class: "words" },
      commit && h("code", { title: commit }, commit.slice(0, 10)),
      commit && " ",
      visibleLine(text),
      path && !text.includes(path) && h("small", {}, visibleLine(path)),
    ),
    h("time", { datetime: new Date(at).toISOString() }, clock(at)),
  );
}
