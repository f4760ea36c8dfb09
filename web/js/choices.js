/**
 * The menus of a session: its mode, its model, and what else can be done with it.
 *
 * @module
 */

import { ask, at } from "./api.js";
import { h } from "./elements.js";
import { confirmed, openMenu, openSheet } from "./sheets.js";
import { toast } from "./toast.js";
import { ago, MODES, modelName } from "./words.js";

/** @typedef {import("./session.js").SessionPage} SessionPage */

const EFFORTS = ["low", "medium", "high"];

/** @param {HTMLElement} anchor @param {SessionPage} page */
export function chooseMode(anchor, page) {
  const mode = page.conversation?.head.mode ?? "default";
  openMenu(anchor, MODES.map((it) => ({ name: it.name, about: it.about, checked: it.value === mode, act: () => void page.desk.set({ mode: it.value }) })), "Permission mode");
}

/** @param {HTMLElement} anchor @param {SessionPage} page */
export async function chooseModel(anchor, page) {
  const { models = [] } = await page.desk.abilities().catch(() => ({ models: [] }));
  const head = page.conversation?.head;
  const list = models.length ? models : [{ value: "default", name: "Default" }, { value: "opus", name: "Opus" }, { value: "sonnet", name: "Sonnet" }, { value: "haiku", name: "Haiku" }];
  openMenu(anchor, [
    ...list.map((it) => ({ name: it.name ?? modelName(it.value), about: "description" in it ? it.description : undefined, checked: it.value === head?.model, act: () => void page.desk.set({ model: it.value === "default" ? null : it.value }) })),
    ...EFFORTS.map((effort) => ({ name: `Effort: ${effort}`, checked: effort === head?.effort, act: () => void page.desk.set({ effort }) })),
  ], "Model and effort");
}

/** @param {HTMLElement} anchor @param {SessionPage} page */
export function sessionMenu(anchor, page) {
  const look = [
    { name: "Changes and tasks", act: () => void page.toggleSide() },
    { name: "Who allowed what", about: "Each answer to a request", act: () => void ledger(page) },
    { name: "Allowed without asking", about: "What was remembered, and taking it back", act: () => void grants(page) },
  ];
  openMenu(anchor, !page.drives ? look : [
    { name: "Rename", act: () => rename(page) },
    { name: "Branch off", about: "A new session that knows this conversation", act: () => void fork(page) },
    ...look,
    { name: "End the agent's process", about: "The next prompt starts it again", act: () => void tried(ask("POST", at(page.id, "/close"))) },
    { name: "Delete", bad: true, act: () => void remove(page) },
  ], "Session");
}

/** @param {SessionPage} page */
function rename(page) {
  const field = h("input", { type: "text", value: page.title.textContent ?? "", maxlength: "200" });
  const form = h("form", { id: "rename", onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    form.closest("dialog")?.close();
    void tried(ask("PATCH", at(page.id), { title: field.value.trim() }));
  } }, h("label", { class: "field" }, h("span", {}, "Name"), field));
  openSheet({ title: "Rename", body: [form], foot: [h("button", { class: "button primary", type: "submit", form: "rename" }, "Rename")] });
  field.focus();
  field.select();
}

/** @param {SessionPage} page */
async function remove(page) {
  if (await confirmed("Delete this session?", "Its agent is ended and its journal is gone for good. Files it changed stay as they are.", "Delete")) await tried(ask("DELETE", at(page.id)));
}

/** @param {SessionPage} page */
async function fork(page) {
  const made = await tried(ask("POST", at(page.id, "/fork"), {}));
  if (made) location.hash = `#/s/${made.id}`;
}

/** @param {SessionPage} page */
async function grants(page) {
  const { openGrants } = await import("./grants.js");
  openGrants({ session: page.id, drives: page.drives, title: (id) => page.app.session(id)?.title ?? undefined });
}

/** @param {SessionPage} page */
async function ledger(page) {
  const told = await tried(ask("GET", at(page.id, "/ledger")));
  if (!told) return;
  const rows = told.entries.map((/** @type {any} */ entry) => {
    const { outcome = "waits", by, at: when = entry.opened } = entry.resolution ?? {};
    return h("tr", {}, h("td", { title: entry.input }, entry.tool), h("td", {}, outcome.replaceAll("_", " ")), h("td", {}, by ? `${by.name} · ${by.via}` : "nobody"), h("td", {}, ago(when)));
  });
  openSheet({ title: "Who allowed what", class: "wide", body: [rows.length
    ? h("div", { class: "usage table-wrap" }, h("table", {}, h("thead", {}, h("tr", {}, ...["What", "Outcome", "By", "When"].map((it) => h("th", {}, it)))), h("tbody", {}, ...rows)))
    : h("p", {}, "Nobody was asked yet.")] });
}

/** @param {Promise<any>} promise */
async function tried(promise) {
  try {
    return await promise;
  } catch (problem) {
    toast(/** @type {Error} */ (problem).message);
    return undefined;
  }
}
