/**
 * The menus of a session: its mode, its model, and other actions.
 *
 * @module
 */

import { callApi, sessionPath } from "./api.js";
import { h } from "./ui/elements.js";
import { confirmAction, openMenu, openDialog } from "./dialogs/dialogs.js";
import { toast } from "./ui/toast.js";
import { dateTime, modelName } from "./ui/format.js";

/** @typedef {import("./session-page.js").SessionPage} SessionPage */

const EFFORTS = ["low", "medium", "high"];

/** @param {HTMLElement} anchor @param {SessionPage} page */
export function chooseMode(anchor, page) {
  const mode = page.conversation?.head.mode ?? "default";
  openMenu(
    anchor,
    page.app.me.modes.map((it) => ({
      name: it.label,
      about: it.description,
      checked: it.id === mode,
      act: () => void page.actions.set({ mode: it.id }),
    })),
    "Permission mode",
  );
}

/** @param {HTMLElement} anchor @param {SessionPage} page */
export async function chooseModel(anchor, page) {
  const { models = [] } = await page.actions.abilities().catch(() => ({ models: [] }));
  const head = page.conversation?.head;
  const list = models.length
    ? models
    : [
        { value: "default", name: "Default" },
        { value: "opus", name: "Opus" },
        { value: "sonnet", name: "Sonnet" },
        { value: "haiku", name: "Haiku" },
      ];
  openMenu(
    anchor,
    [
      ...list.map((it) => ({
        name: it.name ?? modelName(it.value),
        about: "description" in it ? it.description : undefined,
        checked: it.value === head?.model,
        act: () => void page.actions.set({ model: it.value === "default" ? null : it.value }),
      })),
      ...EFFORTS.map((effort) => ({
        name: `Effort: ${effort}`,
        checked: effort === head?.effort,
        act: () => void page.actions.set({ effort }),
      })),
    ],
    "Model and effort",
  );
}

/** @param {HTMLElement} anchor @param {SessionPage} page */
export function sessionMenu(anchor, page) {
  const readOnly = [
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
          ...readOnly,
          {
            name: "Stop the agent process",
            about: "The next message starts it again",
            act: () => void reportErrors(callApi("POST", sessionPath(page.id, "/close"))),
          },
          { name: "Delete", danger: true, act: () => void remove(page) },
        ],
    "Session",
  );
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
  if (
    await confirmAction(
      "Delete this session?",
      "This stops its agent and deletes its history. Files it changed are kept.",
      "Delete",
    )
  )
    await reportErrors(callApi("DELETE", sessionPath(page.id)));
}

/** @param {SessionPage} page */
async function fork(page) {
  const made = await reportErrors(callApi("POST", sessionPath(page.id, "/fork"), {}));
  if (made) location.hash = `#/s/${made.id}`;
}

/** @param {SessionPage} page */
async function showGrants(page) {
  const { openGrants } = await import("./dialogs/grants.js");
  openGrants({
    session: page.id,
    canRevoke: page.canDrive,
    title: (id) => page.app.session(id)?.title ?? undefined,
  });
}

/** @param {SessionPage} page */
async function showLedger(page) {
  const ledger = await reportErrors(callApi("GET", sessionPath(page.id, "/ledger")));
  if (!ledger) return;
  const rows = ledger.entries.map((/** @type {import("./gateway.js").RequestEntry} */ entry) => {
    const { outcome = "waiting", by = undefined, at: when = entry.opened } = entry.resolution ?? {};
    return h(
      "tr",
      {},
      h("td", { title: entry.input }, entry.tool),
      h("td", {}, outcome.replaceAll("_", " ")),
      h("td", {}, by ? `${by.name} · ${by.via}` : "–"),
      h("td", {}, dateTime(when)),
    );
  });
  openDialog({
    title: "Permission history",
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
