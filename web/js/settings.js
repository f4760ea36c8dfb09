/**
 * What this browser should do, and who is signed in.
 *
 * @module
 */

import { ask } from "./api.js";
import { h } from "./elements.js";
import { chime } from "./chime.js";
import { preferences } from "./preferences.js";
import { openSheet } from "./sheets.js";
import { toast } from "./toast.js";

/** @param {import("./gateway.js").Me} me @param {(session: string) => string | undefined} title what a session is called */
export function openSettings(me, title) {
  const theme = h("select", { "aria-label": "Theme", onchange: () => (preferences.theme = theme.value) },
    ...[["", "As the system"], ["light", "Light"], ["dark", "Dark"]].map(([value, name]) => h("option", { value, selected: preferences.theme === value }, name)));
  openSheet({ title: "Settings", body: [
    h("label", { class: "switch-field" }, h("span", {}, "Theme"), theme),
    toggle("Notifications", "When an agent needs you or is done and you look elsewhere", preferences.notify, async (on) => {
      const may = on && "Notification" in window && (await Notification.requestPermission()) === "granted";
      if (on && !may) toast("The browser does not allow notifications here.");
      preferences.notify = may;
      return may;
    }),
    toggle("Sound", "Two soft notes along with it", preferences.sound, async (on) => {
      preferences.sound = on;
      if (on) chime();
      return on;
    }),
    toggle("Show everything", "Also agents that come and go, hooks and the like", preferences.everything, async (on) => {
      preferences.everything = on;
      location.reload();
      return on;
    }),
    more("Allowed without asking", "What was remembered, in all sessions", "Review", () => void import("./grants.js").then((it) => it.openGrants({ drives: me.role !== "watch", title }))),
    me.role === "admin" && more("Tokens", "Who may sign in, and what they may do", "Manage", () => void import("./tokens.js").then((it) => it.openTokens(me))),
    h("p", { class: "why" }, `Signed in as ${me.name} (${me.role}). Towpath ${me.version}.`),
  ], foot: [h("button", { type: "button", class: "button", onclick: () => void ask("POST", "/sign-out").finally(() => location.reload()) }, "Sign out")] });
}

/** @param {string} name @param {string} about @param {string} word @param {() => void} open */
function more(name, about, word, open) {
  return h("div", { class: "switch-field" }, h("span", {}, name, h("small", {}, about)), h("button", { type: "button", class: "button", "aria-label": `${word}: ${name}`, onclick: () => {
    document.querySelector("dialog")?.close();
    open();
  } }, word));
}

/** @param {string} name @param {string} about @param {boolean} on @param {(on: boolean) => Promise<boolean>} change */
function toggle(name, about, on, change) {
  const box = h("input", { type: "checkbox", role: "switch", checked: on });
  box.addEventListener("change", () => void change(box.checked).then((now) => (box.checked = now)));
  return h("label", { class: "switch-field" }, h("span", {}, name, h("small", {}, about)), box);
}
