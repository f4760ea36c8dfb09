/**
 * The menus of a session: its mode, its model, and other actions.
 *
 * @module
 */

import { callApi, sessionPath } from "./api.js";
import { h } from "./ui/elements.js";
import { navigate } from "./ui/layers.js";
import { confirmAction, openMenu, openDialog } from "./dialogs/dialogs.js";
import { toast } from "./ui/toast.js";
import { actorText, dateTime, modelName } from "./ui/format.js";
import { loadStylesheet } from "./ui/stylesheets.js";

/** @typedef {import("./session-page.js").SessionPage} SessionPage */

/** Shown if the server does not list them. */
const EFFORTS = ["low", "medium", "high"];

/**
 * The values of a menu that the agent offers.
 *
 * @param {import("./gateway.js").AgentMenu | null | undefined} menu
 * @param {string} prefix what is written before each value
 * @param {(value: string) => void} set
 */
function menuValues(menu, prefix, set) {
  return (menu?.values ?? []).map((it) => ({
    name: prefix + it.name,
    about: it.description ?? undefined,
    checked: it.id === menu?.current,
    act: () => set(it.id),
  }));
}

/** Goes on to the next mode that has a place in the cycle. @param {SessionPage} page */
export function cycleMode(page) {
  // Which mode of another agent asks for nothing is not known, so it is only chosen from the menu.
  if (page.isAcp) return;
  const modes = page.app.me.modes.filter((it) => it.shortcut);
  const current = page.conversation?.head.mode ?? page.app.session(page.id)?.mode ?? "default";
  const here = modes.findIndex((it) => it.id === current);
  const next = modes[(here + 1) % modes.length];
  if (next) void page.actions.set({ mode: next.id });
}

/** What the agent says about itself, newest. @param {SessionPage} page */
async function agentInfo(page) {
  const info = await callApi("GET", sessionPath(page.id, "/agent")).catch(() => undefined);
  return /** @type {import("./gateway.js").AgentInfo | undefined} */ (info ?? page.agent);
}

/** The modes of an agent that lists them itself. @param {HTMLElement} anchor @param {SessionPage} page */
async function chooseAgentMode(anchor, page) {
  const agent = await agentInfo(page);
  const modes = menuValues(agent?.modes, "", (mode) => void page.actions.set({ mode }));
  if (!modes.length) toast(`${page.agentName} says which modes it has when it runs.`);
  else openMenu(anchor, modes, agent?.modes?.name || "Mode");
}

/** Models, effort and all other options of such an agent. @param {HTMLElement} anchor @param {SessionPage} page */
async function chooseAgentModel(anchor, page) {
  const agent = await agentInfo(page);
  const { actions } = page;
  openMenu(
    anchor,
    [
      ...menuValues(agent?.models, "", (model) => void actions.set({ model })),
      ...menuValues(agent?.efforts, "Effort: ", (effort) => void actions.set({ effort })),
      ...(agent?.options ?? []).flatMap((menu) =>
        menuValues(
          menu,
          `${menu.name}: `,
          (value) => void actions.set({ agent_options: { [menu.id]: value } }),
        ),
      ),
      { name: "About the agent", about: "Version, modes, commands", act: () => showAgent(page) },
    ],
    "Model and options",
  );
}

/** @param {HTMLElement} anchor @param {SessionPage} page */
export function chooseMode(anchor, page) {
  if (page.isAcp) {
    void chooseAgentMode(anchor, page);
    return;
  }
  const mode = page.conversation?.head.mode ?? "default";
  openMenu(
    anchor,
    page.app.me.modes.map((it) => ({
      name: it.label,
      about: it.description,
      checked: it.id === mode,
      act: () => void setMode(page, it.id),
    })),
    "Permission mode",
  );
}

/** Modes that are only chosen deliberately are confirmed. @param {SessionPage} page @param {string} mode */
async function setMode(page, mode) {
  if (mode !== "bypassPermissions") return page.actions.set({ mode });
  const { saveOptions } = await import("./options/save-options.js");
  await reportErrors(saveOptions(page.id, { mode }));
}

/**
 * The value that is in effect. The agent reports the whole name of its model, whatever it was chosen by.
 *
 * @param {string[]} values
 * @param {string | null | undefined} configured
 * @param {string | null | undefined} reported
 */
function currentModel(values, configured, reported) {
  const exact = [configured, reported].find((it) => it && values.includes(it));
  if (exact) return exact;
  if (!configured && values.includes("default")) return "default";
  const name = configured || reported || "";
  const parts = values.filter((it) => it && name.includes(it));
  return parts.sort((a, b) => b.length - a.length)[0];
}

/** @param {HTMLElement} anchor @param {SessionPage} page */
export async function chooseModel(anchor, page) {
  if (page.isAcp) return chooseAgentModel(anchor, page);
  const [{ models = [] }, options] = await Promise.all([
    page.actions.abilities().catch(() => ({ models: [] })),
    callApi("GET", "/options").catch(() => null),
  ]);
  /** @type {import("./gateway.js").OptionResponse | undefined} */
  const effort = options?.options?.find(
    (/** @type {{ name: string }} */ it) => it.name === "effort",
  );
  const head = page.conversation?.head;
  const list = models.length
    ? models
    : [
        { value: "default", name: "Default" },
        { value: "opus", name: "Opus" },
        { value: "sonnet", name: "Sonnet" },
        { value: "haiku", name: "Haiku" },
      ];
  const current = currentModel(
    list.map((it) => it.value),
    page.app.session(page.id)?.model,
    head?.model,
  );
  openMenu(
    anchor,
    [
      ...list.map((it) => ({
        name: it.name ?? modelName(it.value),
        about: "description" in it ? it.description : undefined,
        checked: it.value === current,
        act: () => void page.actions.set({ model: it.value === "default" ? null : it.value }),
      })),
      ...(effort?.choices ?? EFFORTS).map((level) => ({
        name: `Effort: ${level}`,
        checked: level === head?.effort,
        act: () => void page.actions.set({ effort: level }),
      })),
      {
        name: "About the agent",
        about: "Tools, MCP servers, commands",
        act: () => showAgent(page),
      },
    ],
    "Model and effort",
  );
}

/** @param {HTMLElement} anchor @param {SessionPage} page */
export function sessionMenu(anchor, page) {
  const session = page.app.session(page.id);
  const readOnly = [
    {
      name: "Session settings",
      about: "Model, limits, tools, acting on changes",
      act: () =>
        void import("./dialogs/session-settings.js").then((it) => it.openSessionSettings(page)),
    },
    {
      name: "About the agent",
      about: "Version, tools, MCP servers, commands",
      act: () => showAgent(page),
    },
    {
      name: "Send later…",
      about: "Messages at a time, or again and again",
      act: () => void import("./schedule/schedule-dialog.js").then((it) => it.openSchedule(page)),
    },
    {
      name: "Your messages",
      about: "All prompts of this session, to go to one (o)",
      act: () => void import("./conversation/outline.js").then((it) => it.openOutline(page)),
    },
    {
      name: "Share as HTML…",
      about: "One file that opens anywhere",
      act: () => void import("./dialogs/share.js").then((it) => it.openShare(page)),
    },
    { name: "Changes and tasks", act: () => void page.toggleSide() },
    {
      name: "Permission history",
      about: "Every answer to a request",
      act: () => void showLedger(page),
    },
    {
      name: "Always allowed",
      about: "Review and revoke remembered permissions",
      act: () => void showGrants(page),
    },
  ];
  openMenu(
    anchor,
    !page.canDrive
      ? readOnly
      : [
          { name: "Rename", act: () => rename(page) },
          {
            name: "Fork",
            about: "Start a new session from this conversation",
            act: () => void fork(page),
          },
          {
            name: "Continue with another agent…",
            about: "A new session that gets a summary of this one",
            act: () => void import("./dialogs/handover.js").then((it) => it.openHandover(page)),
          },
          ...(session?.worker
            ? [
                {
                  name: "Move to another worker…",
                  about: `It is on ${session.worker}`,
                  act: () =>
                    void import("./dialogs/move-session.js").then((it) => it.openMoveSession(page)),
                },
              ]
            : []),
          ...readOnly,
          {
            name: "Stop the agent process",
            about: "The next message starts it again",
            act: () => void reportErrors(callApi("POST", sessionPath(page.id, "/close"))),
          },
          session?.pinned
            ? { name: "Unpin", act: () => mark(page, { pinned: false }) }
            : { name: "Pin", act: () => mark(page, { pinned: true }) },
          session?.archived
            ? { name: "Take out of the archive", act: () => mark(page, { archived: false }) }
            : { name: "Archive", act: () => mark(page, { archived: true }) },
          { name: "Delete", danger: true, act: () => void remove(page) },
        ],
    "Session",
  );
}

/** @param {SessionPage} page */
function showAgent(page) {
  void import("./dialogs/agent-info.js").then((it) => it.openAgentInfo(page));
}

/** @param {SessionPage} page */
function rename(page) {
  const field = h("input", { type: "text", value: page.title.textContent ?? "", maxlength: "200" });
  const form = h(
    "form",
    {
      id: "rename",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        form.closest("dialog")?.close();
        void reportErrors(callApi("PATCH", sessionPath(page.id), { title: field.value.trim() }));
      },
    },
    h("label", { class: "field" }, h("span", {}, "Title"), field),
  );
  openDialog({
    title: "Rename session",
    body: [form],
    foot: [h("button", { class: "button primary", type: "submit", form: "rename" }, "Rename")],
  });
  field.focus();
  field.select();
}

/** @param {SessionPage} page */
async function remove(page) {
  const found = await callApi("GET", sessionPath(page.id, "/worktree")).catch(() => undefined);
  if (found?.worktree) {
    const { removeWithWorktree } = await import("./dialogs/worktree.js");
    removeWithWorktree(page, found.worktree);
    return;
  }
  if (
    await confirmAction(
      "Delete this session?",
      "This stops its agent and deletes its history. Files it changed are kept.",
      "Delete",
    )
  )
    await reportErrors(callApi("DELETE", sessionPath(page.id)));
}

/** All clients see the marks. @param {SessionPage} page @param {object} marks */
function mark(page, marks) {
  void reportErrors(callApi("PATCH", sessionPath(page.id), marks));
}

/** @param {SessionPage} page */
async function fork(page) {
  const made = await reportErrors(callApi("POST", sessionPath(page.id, "/fork"), {}));
  if (made) navigate(`#/s/${made.id}`);
}

/** @param {SessionPage} page */
export async function showGrants(page) {
  const { openGrants } = await import("./dialogs/grants.js");
  openGrants({
    session: page.id,
    canRevoke: page.canDrive,
    title: (id) => page.app.session(id)?.title ?? undefined,
  });
}

/** @param {SessionPage} page */
export async function showLedger(page) {
  const [ledger] = await Promise.all([
    reportErrors(callApi("GET", sessionPath(page.id, "/ledger"))),
    loadStylesheet("/css/usage.css"),
  ]);
  if (!ledger) return;
  const rows = ledger.entries.map((/** @type {import("./gateway.js").RequestEntry} */ entry) => {
    const { outcome = "waiting", by = undefined, at: when = entry.opened } = entry.resolution ?? {};
    return h(
      "tr",
      {},
      h("td", { title: entry.input }, entry.tool),
      h("td", {}, outcome.replaceAll("_", " ")),
      h("td", {}, by ? actorText(by, page.app.me.name) : "–"),
      h("td", {}, dateTime(when)),
    );
  });
  openDialog({
    title: "Permission history",
    address: "permissions",
    class: "wide",
    body: [
      rows.length
        ? h(
            "div",
            { class: "usage table-wrap" },
            h(
              "table",
              {},
              h(
                "thead",
                {},
                h("tr", {}, ...["Tool", "Outcome", "By", "When"].map((it) => h("th", {}, it))),
              ),
              h("tbody", {}, ...rows),
            ),
          )
        : h("p", {}, "The agent has not asked for anything yet."),
    ],
  });
}

/** @param {Promise<any>} promise */
async function reportErrors(promise) {
  try {
    return await promise;
  } catch (problem) {
    toast(/** @type {Error} */ (problem).message);
    return undefined;
  }
}
