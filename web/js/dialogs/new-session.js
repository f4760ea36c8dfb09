/**
 * The dialog that creates a session: first the message, then where and how the agent works on it. Which
 * options there are, and which of them this client may set, comes from the server.
 *
 * @module
 */

import { callApi, newId } from "../api.js";
import { createSession } from "../create-session.js";
import { preferences } from "../preferences.js";
import { OptionFields } from "../options/option-fields.js";
import { projectFile } from "../options/project-file.js";
import { fill, h } from "../ui/elements.js";
import { baseName, withShortcut } from "../ui/format.js";
import { navigate } from "../ui/layers.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { visibleLine } from "../ui/visible-text.js";
import { confirmBypass } from "./bypass.js";
import { openDialog } from "./dialogs.js";

await loadStylesheet("/css/new-session.css");

/** @typedef {import("../gateway.js").OptionsResponse} Options */

/** Options that are not folded away. */
const FIRST = ["agent", "model", "effort", "mode"];
/** Options with values of Claude Code. Other agents say themselves what can be chosen when they run. */
const CLAUDE_ONLY = ["model", "effort", "mode"];

/** How many directories of recent sessions are offered. */
const MAX_RECENT = 6;

/**
 * @param {import("../gateway.js").Me} me
 * @param {import("../gateway.js").Session[]} sessions
 * @param {string} [cwd] the directory to start with
 */
export function openNewSession(me, sessions, cwd) {
  const recent = [...new Set(sessions.sort((a, b) => b.active - a.active).map((it) => it.cwd))];
  const directory = directoryField(
    cwd ?? recent[0] ?? me.roots[0] ?? "",
    recent.slice(0, MAX_RECENT),
    () => void loadOptions(),
  );
  const worktree = worktreeChip(me);
  const machine = workerField(me, (roots) => directory.offer(roots));
  const title = h("input", {
    type: "text",
    maxlength: "200",
    autocomplete: "off",
    placeholder: "From the first message",
  });
  const profile = h("select", { onchange: () => showProfile() });
  const profileAbout = h("p", { class: "option-help" });
  const prompt = h("textarea", {
    rows: "4",
    class: "first-message",
    placeholder: withShortcut(
      "What should be done?",
      "Ctrl+Enter creates the session and sends this",
    ),
    oninput: () => (button.textContent = prompt.value.trim() ? "Create and send" : "Create"),
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      if (!button.disabled) void create();
    },
  });
  const project = h("div", {});
  const first = h("div", { class: "option-row chips" });
  const others = h("div", { class: "option-list" });
  const more = h(
    "details",
    { class: "more-options", hidden: true },
    h("summary", {}, "More options"),
    others,
  );
  const error = h("p", { class: "form-error", role: "alert" });
  const button = h(
    "button",
    { type: "submit", class: "button primary", form: "new-session" },
    "Create",
  );
  /** @type {Options | undefined} */ let options;
  /** @type {OptionFields | undefined} */ let fields;
  /** @type {import("../gateway.js").Agent[]} */ let agents = [];
  // One id for the whole dialog: pressing twice, or again after a lost response, creates one session.
  const ids = { session: newId(), prompt: newId() };

  const chosenProfile = () => allProfiles(options).find((it) => it.name === profile.value);
  const showProfile = () => {
    const chosen = chosenProfile();
    fields?.inherit(chosen?.options ?? {}, "Profile");
    profileAbout.textContent = visibleLine(chosen?.description ?? "");
  };

  /** The options depend on the directory: its profile, and the settings of the project. */
  const loadOptions = async () => {
    const cwd = directory.input.value.trim();
    directory.showRecent();
    void worktree.load(cwd);
    /** @type {{ loaded?: Options, message: string }} */
    const { loaded, message } = await callApi(
      "GET",
      `/options?cwd=${encodeURIComponent(cwd)}`,
    ).then(
      (it) => ({ loaded: it, message: "" }),
      // Without a directory there are options too.
      async (problem) => ({
        loaded: fields ? undefined : await callApi("GET", "/options").catch(() => undefined),
        message: problem.message,
      }),
    );
    if (!agents.length) agents = await loadAgents();
    if (cwd !== directory.input.value.trim()) return;
    error.textContent = message;
    if (!loaded) return;
    const before = options && profile.value;
    options = loaded;
    fill(
      project,
      loaded.project &&
        projectFile(loaded.project, cwd, me.role === "admin", () => void loadOptions()),
      ...[loaded.profiles_error, loaded.project_error].map(
        (it) => it && h("p", { class: "form-error" }, visibleLine(it)),
      ),
    );
    const profiles = allProfiles(loaded);
    fill(
      profile,
      h("option", { value: "" }, profiles.length ? "No profile" : "There are none"),
      ...profiles.map((it) => h("option", { value: it.name }, visibleLine(it.name))),
    );
    const usual = profiles.find((it) => it.default)?.name ?? "";
    profile.value = profiles.some((it) => it.name === before) ? (before ?? "") : usual;
    profile.disabled = profiles.length === 0;
    if (!fields) showFields(loaded);
    showProfile();
  };

  /** @param {Options} loaded */
  const showFields = (loaded) => {
    fields = new OptionFields(loaded.options, { me, bypassAllowed: loaded.bypass_allowed, agents });
    for (const [name, field] of fields.byName)
      (FIRST.includes(name) ? first : others).append(field.element);
    more.hidden = !others.firstChild;
    const agent = fields.byName.get("agent");
    const remembered = agents.find((it) => it.name === preferences.agent && it.installed);
    if (remembered) agent?.write(remembered.name);
    agent?.element.addEventListener("change", showAgent);
    showAgent();
  };

  /** The agent that the session would get. */
  const chosenAgent = () => {
    const name = fields?.byName.get("agent")?.control.read();
    return agents.find((it) => (name ? it.name === name : it.default));
  };

  const showAgent = () => {
    const acp = chosenAgent()?.protocol === "acp";
    for (const name of CLAUDE_ONLY) {
      const field = fields?.byName.get(name);
      if (!field) continue;
      field.element.hidden = acp;
      if (acp) field.write(null);
    }
  };

  const create = async () => {
    const given = fields?.changes() ?? (fields ? undefined : {});
    if (!given) return;
    if (given.mode === "bypassPermissions" && !(await confirmBypass())) return;
    const text = prompt.value.trim();
    const body = {
      id: ids.session,
      cwd: directory.input.value.trim(),
      title: title.value.trim() || undefined,
      // Without a word on it the directory's own profile applies.
      profile: profile.value || "none",
      prompt: text ? { id: ids.prompt, text } : undefined,
      worktree: worktree.box.checked || undefined,
      ...machine.wish(),
      ...given,
    };
    button.disabled = true;
    error.textContent = "";
    try {
      const { id } = await createSession(body);
      preferences.agent = typeof given.agent === "string" ? given.agent : "";
      navigate(`#/s/${id}`);
    } catch (problem) {
      const { message } = /** @type {Error} */ (problem);
      if (!fields?.showProblem(message)) error.textContent = message;
    } finally {
      button.disabled = false;
    }
  };

  const form = h(
    "form",
    {
      id: "new-session",
      novalidate: true,
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        void create();
      },
    },
    h("label", { class: "field" }, h("span", {}, "First message"), prompt),
    first,
    directory.element,
    machine.element,
    worktree.element,
    project,
    h(
      "div",
      { class: "two" },
      h("label", { class: "field" }, h("span", {}, "Title"), title),
      h("div", {}, h("label", { class: "field" }, h("span", {}, "Profile"), profile), profileAbout),
    ),
    more,
    error,
  );
  openDialog({
    title: "New session",
    address: "new",
    class: "form",
    body: [form],
    foot: [button],
    unsaved: () =>
      Boolean(
        prompt.value.trim() ||
        title.value.trim() ||
        // The agent of the last session is entered without the user.
        fields?.changedNames().some((it) => it !== "agent"),
      ),
  });
  void loadOptions();
  void machine.load();
  prompt.focus();
}

/**
 * On which machine of a fleet the session is to be. There is a choice if there are several.
 *
 * @param {import("../gateway.js").Me} me
 * @param {(roots: string[]) => void} offer is told where sessions may work
 */
function workerField(me, offer) {
  const select = h("select", {});
  const element = h("label", { class: "field", hidden: true }, h("span", {}, "Worker"), select);
  const load = async () => {
    if (!me.fleet) return;
    /** @type {{ workers: import("../gateway.js").Worker[] }} */
    const { workers } = await callApi("GET", "/workers").catch(() => ({ workers: [] }));
    const there = workers.filter((it) => it.connected);
    offer([...new Set(there.flatMap((it) => it.roots))]);
    const pools = [...new Set(there.flatMap((it) => it.pool ?? []))].sort();
    fill(
      select,
      h("option", { value: "" }, "Any with a free slot"),
      ...pools.map((it) => h("option", { value: `pool ${it}` }, `Any of ${visibleLine(it)}`)),
      ...there.map((it) =>
        h(
          "option",
          { value: `worker ${it.name}` },
          `${visibleLine(it.name)} (${Math.max(0, it.slots - it.used)} of ${it.slots} slots free)`,
        ),
      ),
    );
    element.hidden = there.length < 2;
  };
  const wish = () => {
    const [kind, ...name] = select.value.split(" ");
    return kind ? { [kind]: name.join(" ") } : {};
  };
  return { element, load, wish };
}

/** @returns {Promise<import("../gateway.js").Agent[]>} */
async function loadAgents() {
  const listed = await callApi("GET", "/agents").catch(() => undefined);
  return listed?.agents ?? [];
}

/** The profiles of the server, and those of a trusted project. @param {Options | undefined} options */
function allProfiles(options) {
  const own = options?.project?.trusted ? options.project.profiles : [];
  const names = new Set(options?.profiles.map((it) => it.name));
  return [...(options?.profiles ?? []), ...own.filter((it) => !names.has(it.name))];
}

/**
 * Whether the session gets a working tree of its own, and where.
 *
 * @param {import("../gateway.js").Me} me
 */
function worktreeChip(me) {
  const box = h("input", { type: "checkbox" });
  const about = h("small", {});
  const element = h(
    "label",
    { class: "worktree-chip", hidden: true },
    box,
    h("span", {}, "In a new working tree", about),
  );
  let asked = "";
  /** @param {string} cwd */
  const load = async (cwd) => {
    asked = cwd;
    if (me.fleet) {
      // The worker knows whether the directory is in a repository, and says so if it is not.
      element.hidden = false;
      about.textContent = "With a branch of its own, beside the repository on the worker";
      return;
    }
    /** @type {import("../gateway.js").Repository | undefined} */
    const repository = await callApi("GET", `/repository?cwd=${encodeURIComponent(cwd)}`).catch(
      () => undefined,
    );
    if (asked !== cwd) return;
    const place = repository?.worktrees;
    element.hidden = !place;
    if (!place) box.checked = false;
    about.textContent = place
      ? `With a branch of its own from ${repository?.branch ?? "the current commit"}, in ${place}`
      : "";
  };
  return { element, box, load };
}

/**
 * A field for a directory, with those of recent sessions and those below it.
 *
 * @param {string} initial
 * @param {string[]} recent
 * @param {() => void} changed
 */
function directoryField(initial, recent, changed) {
  const input = h("input", {
    type: "text",
    value: initial,
    required: true,
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": "directories",
    onfocus: () => void suggest(),
  });
  const list = h("ul", {
    class: "suggestions",
    id: "directories",
    role: "listbox",
    "aria-label": "Directories",
    hidden: true,
  });
  const choose = (/** @type {string} */ path, below = true) => {
    input.value = path;
    if (below) void suggest();
    else showList(false);
    changed();
  };
  const showList = (/** @type {boolean} */ shown) => {
    list.hidden = !shown;
    input.setAttribute("aria-expanded", String(shown));
  };
  const suggest = async () => {
    const under = input.value.trim();
    const listing = await callApi("GET", `/directories?under=${encodeURIComponent(under)}`).catch(
      () => undefined,
    );
    const up = listing?.parent ? [{ path: listing.parent, name: ".." }] : [];
    const some = [...up, ...(listing?.directories ?? [])].slice(0, 60);
    fill(
      list,
      ...some.map((/** @type {import("../gateway.js").DirectoryEntry} */ it) =>
        h(
          "li",
          {
            role: "option",
            "aria-selected": "false",
            tabindex: "0",
            onclick: () => choose(it.path),
            onkeydown: (/** @type {KeyboardEvent} */ event) =>
              event.key === "Enter" && (event.preventDefault(), choose(it.path)),
          },
          it.name === ".." ? "↰ .." : it.name,
          it.repository && h("small", {}, " git"),
        ),
      ),
    );
    showList(some.length > 0);
  };
  input.addEventListener("change", () => {
    void suggest();
    changed();
  });
  const chips = h("div", {
    class: "recent-directories",
    role: "group",
    "aria-label": "Recent directories",
  });
  const showRecent = () =>
    fill(
      chips,
      ...recent.map((path) =>
        h(
          "button",
          {
            type: "button",
            class: "chip",
            title: path,
            "aria-pressed": String(path === input.value.trim()),
            onclick: () => choose(path, false),
          },
          baseName(path),
        ),
      ),
    );
  /** Adds directories to those of recent sessions, and begins with the first if none is entered. @param {string[]} more */
  const offer = (more) => {
    recent = [...new Set([...recent, ...more])].slice(0, MAX_RECENT);
    chips.hidden = recent.length < 2;
    if (!input.value.trim() && recent.length) choose(recent[0], false);
    else showRecent();
  };
  chips.hidden = recent.length < 2;
  const element = h(
    "div",
    {},
    chips,
    h("label", { class: "field" }, h("span", {}, "Directory"), input),
    list,
  );
  return { element, input, showRecent, offer };
}
