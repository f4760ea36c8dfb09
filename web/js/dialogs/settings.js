/**
 * Settings of this browser, and the signed-in client.
 *
 * @module
 */

import { callApi } from "../api.js";
import { h } from "../ui/elements.js";
import { playSound } from "../sound.js";
import { preferences } from "../preferences.js";
import { openDialog } from "./dialogs.js";
import { deviceFields } from "../push.js";

/** @param {import("../gateway.js").Me} me @param {(session: string) => string | undefined} title the title of a session */
export function openSettings(me, title) {
  const theme = h(
    "select",
    { "aria-label": "Theme", onchange: () => (preferences.theme = theme.value) },
    ...[
      ["", "System"],
      ["light", "Light"],
      ["dark", "Dark"],
      ["contrast", "High contrast"],
    ].map(([value, name]) => h("option", { value, selected: preferences.theme === value }, name)),
  );
  const size = h(
    "select",
    { "aria-label": "Text size", onchange: () => (preferences.size = size.value) },
    ...[
      ["small", "Small"],
      ["", "Normal"],
      ["large", "Large"],
      ["larger", "Larger"],
      ["largest", "Largest"],
    ].map(([value, name]) => h("option", { value, selected: preferences.size === value }, name)),
  );
  openDialog({
    title: "Settings",
    address: "settings",
    body: [
      h("label", { class: "switch-field" }, h("span", {}, "Theme"), theme),
      h("label", { class: "switch-field" }, h("span", {}, "Text size"), size),
      ...deviceFields(me),
      toggle("Sound", "Two soft notes with each notification", preferences.sound, async (on) => {
        preferences.sound = on;
        if (on) playSound();
        return on;
      }),
      toggle(
        "Show housekeeping",
        "Agent starts, hooks and similar events",
        preferences.everything,
        async (on) => {
          preferences.everything = on;
          location.reload();
          return on;
        },
      ),
      more(
        "Always allowed",
        "Remembered permissions of all sessions",
        "Review",
        () =>
          void import("./grants.js").then((it) =>
            it.openGrants({ canRevoke: me.role !== "watch", title }),
          ),
      ),
      me.fleet &&
        more(
          "Workers",
          "The machines that run the sessions",
          "Show",
          () => void import("./workers.js").then((it) => it.openWorkers()),
        ),
      me.role === "admin" &&
        more(
          "Access tokens",
          "Who can sign in, and with which role",
          "Manage",
          () => void import("./tokens.js").then((it) => it.openTokens(me)),
        ),
      h(
        "p",
        { class: "help-text" },
        `Signed in as ${me.name} (${me.role}). Towpath ${me.version}.`,
      ),
    ],
    foot: [
      h(
        "button",
        {
          type: "button",
          class: "button",
          onclick: () => void callApi("POST", "/sign-out").finally(() => location.reload()),
        },
        "Sign out",
      ),
    ],
  });
}

/** @param {string} name @param {string} about @param {string} word @param {() => void} open */
function more(name, about, word, open) {
  return h(
    "div",
    { class: "switch-field" },
    h("span", {}, name, h("small", {}, about)),
    h(
      "button",
      {
        type: "button",
        class: "button",
        "aria-label": `${word}: ${name}`,
        onclick: () => {
          document.querySelector("dialog")?.close();
          open();
        },
      },
      word,
    ),
  );
}

/** @param {string} name @param {string} about @param {boolean} on @param {(on: boolean) => Promise<boolean>} change */
function toggle(name, about, on, change) {
  const box = h("input", { type: "checkbox", role: "switch", checked: on });
  box.addEventListener("change", () => void change(box.checked).then((now) => (box.checked = now)));
  return h("label", { class: "switch-field" }, h("span", {}, name, h("small", {}, about)), box);
}
