/**
 * What the agent says about itself: its version, tools, MCP servers, commands.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { fill, h } from "../ui/elements.js";
import { isServerProblem, modeLabel, plural } from "../ui/format.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { visibleLine } from "../ui/visible-text.js";
import { openDialog } from "./dialogs.js";

await loadStylesheet("/css/agent-info.css");

/** @typedef {import("../gateway.js").AgentInfo} AgentInfo */
/** @typedef {import("../gateway.js").AgentFiles} AgentFiles */
/** @typedef {import("../gateway.js").McpServer} McpServer */
/** @typedef {import("../gateway.js").NamedFile} NamedFile */

/** How many entries of a list are shown before *Show all*. */
const MAX_SHOWN = 60;
/** States of an MCP server in words. The others are shown as the CLI spells them, as problems. */
const STATES = /** @type {Record<string, string>} */ ({
  connected: "connected",
  pending: "connecting",
  disabled: "switched off",
  failed: "failed",
  "needs-auth": "needs you to sign in",
});

const LISTS = /** @type {const} */ ([
  ["tools", "Tools"],
  ["agents", "Agents"],
  ["skills", "Skills"],
  ["plugins", "Plugins"],
  ["commands", "Commands"],
]);

/** @param {import("../session-page.js").SessionPage} page */
export function openAgentInfo(page) {
  const place = h("div", { class: "agent-info" }, h("p", {}, "…"));
  openDialog({ title: "About the agent", address: "agent", class: "form", body: [place] });
  const files = h("div", { class: "agent-files" });
  if (!page.isAcp)
    void callApi("GET", sessionPath(page.id, "/agent/files")).then(
      (/** @type {AgentFiles} */ found) => fill(files, ...describeFiles(found)),
      (problem) => fill(files, h("p", { class: "form-error" }, problem.message)),
    );
  void callApi("GET", sessionPath(page.id, "/agent")).then(
    (/** @type {AgentInfo} */ agent) =>
      fill(place, ...describe(agent, modeLabel(page.app.me.modes, agent.mode)), files),
    (problem) => fill(place, h("p", { class: "form-error" }, problem.message)),
  );
}

/** @param {AgentInfo} agent @param {string} mode */
function describe(agent, mode) {
  if (!agent.version && !agent.model && !agent.tools.total)
    return [
      h("p", { class: "help-text" }, "The agent describes itself with its first message. "),
      h("p", { class: "help-text" }, "Send one, and look here again."),
    ];
  const facts = /** @type {[string, string | null | undefined][]} */ ([
    ["Version", agent.version],
    ["Model", agent.model],
    ["Permission mode", agent.mode && mode],
    ["Directory", agent.cwd],
    ["Output style", agent.output_style],
    ["API key from", agent.api_key_source],
  ]).filter(([, value]) => value);
  const lists = LISTS.map(([key, title]) => new NameSection(title, agent[key])).filter(
    (it) => it.total > 0,
  );
  const nothing = h("p", { class: "help-text", hidden: true }, "Nothing matches.");
  const search = h("input", {
    type: "search",
    class: "input",
    placeholder: "Find a tool, agent, skill, plugin or command",
    "aria-label": "Find a tool, agent, skill, plugin or command",
    oninput: () => {
      const found = lists.filter((it) => it.show(search.value.trim().toLowerCase()));
      nothing.hidden = found.length > 0;
    },
  });
  return [
    h(
      "dl",
      { class: "facts" },
      ...facts.flatMap(([name, value]) => [
        h("dt", {}, name),
        h("dd", {}, visibleLine(String(value))),
      ]),
    ),
    servers(agent.mcp_servers),
    lists.length > 0 && search,
    nothing,
    ...lists.map((it) => it.element),
  ];
}

/** What files add to the CLI, whether it runs or not. @param {AgentFiles} files */
function describeFiles(files) {
  const hooks = files.hooks.map((it) => ({
    name: it.matcher ? `${it.event} · ${it.matcher}` : it.event,
    description: it.command,
    file: it.file,
  }));
  const sections = [
    fileSection("Hooks", hooks, true),
    fileSection("Sub-agents", files.agents),
    fileSection("Skills", files.skills),
    fileSection("MCP servers", files.mcp_servers),
  ].filter((it) => it !== null);
  if (!sections.length && !files.problems.length) return [];
  return [
    h("h3", {}, "In files"),
    h(
      "p",
      { class: "help-text" },
      "What files of the project and of the user add. The agent reads them when it starts.",
    ),
    ...files.problems.map((it) => h("p", { class: "form-error" }, visibleLine(it))),
    ...sections,
  ];
}

/** @param {string} title @param {NamedFile[]} items @param {boolean} [code] whether the descriptions are commands */
function fileSection(title, items, code = false) {
  if (!items.length) return null;
  return h(
    "details",
    { open: items.length <= 8 },
    h("summary", {}, h("h4", {}, title, " ", h("span", { class: "count" }, items.length))),
    h(
      "ul",
      { class: "file-entries" },
      ...items.map(({ name, description, file }) =>
        h(
          "li",
          {},
          h("span", { class: "name" }, visibleLine(name)),
          h("span", { class: "file" }, visibleLine(file)),
          description && h(code ? "code" : "span", { class: "about" }, visibleLine(description)),
        ),
      ),
    ),
  );
}

/** @param {import("../gateway.js").McpServerList} list */
function servers({ items, total }) {
  if (!total) return null;
  const isProblem = (/** @type {McpServer} */ it) => isServerProblem(it.status);
  const problems = items.filter(isProblem);
  const shown = [...problems, ...items.filter((it) => !isProblem(it))];
  const list = h("ul", { class: "servers", tabindex: "0", "aria-label": "MCP servers" });
  for (const { name, status } of shown)
    list.append(
      h(
        "li",
        { class: isServerProblem(status) ? "problem" : status },
        h("span", { class: "name" }, visibleLine(name)),
        h("span", { class: "state" }, STATES[status] ?? (visibleLine(status) || "unknown")),
      ),
    );
  return h(
    "section",
    {},
    h(
      "h3",
      {},
      "MCP servers ",
      h("span", { class: "count" }, total),
      problems.length > 0 &&
        h("span", { class: "count problem" }, plural(problems.length, "problem")),
    ),
    list,
    total > items.length && more(total - items.length),
  );
}

/** @param {number} number */
function more(number) {
  return h("p", { class: "help-text" }, `And ${number.toLocaleString()} that are not listed here.`);
}

/** A list of names that can be searched and is shown in parts. */
class NameSection {
  /** @param {string} title @param {import("../gateway.js").NameList} list */
  constructor(title, { items, total }) {
    this.names = items.map(visibleLine);
    this.total = total;
    this.count = h("span", { class: "count" }, total.toLocaleString());
    this.list = h("ul", { class: "names" });
    this.place = h("div", {});
    this.element = h(
      "details",
      { open: total <= MAX_SHOWN },
      h("summary", {}, h("h3", {}, title, " ", this.count)),
      this.list,
      this.place,
    );
    this.show("");
  }

  /** Shows the names with these letters. Returns whether there are any. @param {string} letters */
  show(letters) {
    const found = this.names.filter((it) => it.toLowerCase().includes(letters));
    this.element.hidden = found.length === 0;
    if (letters) this.element.open = true;
    this.count.textContent = letters
      ? `${found.length.toLocaleString()} of ${this.total.toLocaleString()}`
      : this.total.toLocaleString();
    this.#fill(found, MAX_SHOWN, !letters);
    return found.length > 0;
  }

  /** @param {string[]} names @param {number} shown @param {boolean} all no letters are searched for */
  #fill(names, shown, all) {
    fill(this.list, ...names.slice(0, shown).map((it) => h("li", {}, h("code", {}, it))));
    const rest = names.length - shown;
    const unlisted = this.total - this.names.length;
    fill(
      this.place,
      rest > 0 &&
        h(
          "button",
          {
            type: "button",
            class: "button quiet",
            onclick: () => this.#fill(names, names.length, all),
          },
          `Show ${rest.toLocaleString()} more`,
        ),
      all && unlisted > 0 && more(unlisted),
    );
  }
}
