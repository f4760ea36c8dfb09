/**
 * Dialogs that have an address, `#…?sheet=NAME`: a link to one, or a reload, opens it.
 *
 * @module
 */

import { callApi, sessionPath } from "./api.js";
import { currentAddress, isSheetOpen } from "./ui/layers.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./session-page.js").SessionPage} SessionPage */

/** Those of the whole page. @type {Record<string, (app: App) => unknown>} */
const OF_APP = {
  settings: (app) => app.settings(),
  help: (app) => app.help(),
  new: (app) => app.me.role !== "watch" && app.newSession(),
  workers: async ({ me }) => me.fleet && (await import("./dialogs/workers.js")).openWorkers(),
  tokens: async ({ me }) =>
    me.role === "admin" && (await import("./dialogs/tokens.js")).openTokens(me),
  "all-grants": async (app) =>
    (await import("./dialogs/grants.js")).openGrants({
      canRevoke: app.me.role !== "watch",
      title: (id) => app.sessions.get(id)?.title ?? undefined,
    }),
};

/** Those of a session. `rest` is what follows the name. @type {Record<string, (page: SessionPage, rest: string) => unknown>} */
const OF_SESSION = {
  "session-settings": async (page) =>
    (await import("./dialogs/session-settings.js")).openSessionSettings(page),
  agent: async (page) => (await import("./dialogs/agent-info.js")).openAgentInfo(page),
  outline: async (page) => (await import("./conversation/outline.js")).openOutline(page),
  share: async (page) => (await import("./dialogs/share.js")).openShare(page),
  permissions: async (page) => (await import("./session-menu.js")).showLedger(page),
  grants: async (page) => (await import("./session-menu.js")).showGrants(page),
  handover: async (page) =>
    page.canDrive && (await import("./dialogs/handover.js")).openHandover(page),
  move: async (page) =>
    page.canDrive && (await import("./dialogs/move-session.js")).openMoveSession(page),
  schedule: async (page) => (await import("./schedule/schedule-dialog.js")).openSchedule(page),
  changes: (page) => page.side?.element.isConnected || page.toggleSide(),
  file: openFileChanges,
};

/**
 * Opens a sheet. Returns whether there is one with this name.
 *
 * @param {App} app
 * @param {string} sheet
 */
export async function openSheet(app, sheet) {
  const [, name, rest = ""] = /^([^/]*)(?:\/(.*))?$/.exec(sheet) ?? ["", ""];
  if (Object.hasOwn(OF_APP, name)) await OF_APP[name](app);
  else if (Object.hasOwn(OF_SESSION, name) && app.page) {
    const { page } = app;
    await page.ready;
    // The user may have gone elsewhere meanwhile.
    if (page !== app.page || currentAddress().sheet !== sheet || isSheetOpen(sheet)) return true;
    await OF_SESSION[name](page, rest);
  }
  return isSheetOpen(sheet);
}

/** The changes of a file, in the turns that the address names or in all of them. @param {SessionPage} page @param {string} rest */
async function openFileChanges(page, rest) {
  const [encoded, numbers = ""] = rest.split("/");
  const path = decoded(encoded);
  let turns = numbers.split(".").map(Number).filter(Boolean);
  if (!turns.length) {
    const { files = [] } = await callApi("GET", sessionPath(page.id, "/changed")).catch(() => ({}));
    turns =
      files.find((/** @type {import("./gateway.js").SessionFile} */ it) => it.path === path)
        ?.turns ?? [];
  }
  await (await import("./conversation/file-changes.js")).openFile(page, path, turns, rest);
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
