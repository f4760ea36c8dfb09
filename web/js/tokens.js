/**
 * Tokens, for whoever keeps them: who has one, making one, taking one back.
 *
 * What a token consists of is told by the server once, when it is made, and is kept nowhere on this
 * page: it is gone when the dialog closes.
 *
 * @module
 */

import { ask } from "./api.js";
import { fill, h } from "./elements.js";
import { confirmed, openSheet } from "./sheets.js";
import { tried } from "./desk.js";
import { ago } from "./words.js";

/** @typedef {import("./gateway.js").Token} Token */

const ROLES = /** @type {const} */ ([
  ["watch", "Watch", "Watching reads along and changes nothing."],
  ["drive", "Drive", "Driving also prompts, answers, begins and deletes sessions."],
  ["admin", "Admin", "An admin also keeps tokens."],
]);

/** @param {import("./gateway.js").Me} me */
export function openTokens(me) {
  const list = h("ul", { class: "plain-list", "aria-label": "Tokens" }, h("li", {}, "…"));
  const name = h("input", { type: "text", required: true, maxlength: "64", pattern: "[A-Za-z0-9._\\-]+", placeholder: "phone", autocapitalize: "off", autocomplete: "off", spellcheck: "false", title: "Letters, digits, - _ and ." });
  const hint = h("p", { class: "why", id: "role-hint" });
  const explain = () => (hint.textContent = ROLES.find(([value]) => value === role.value)?.[2] ?? "");
  const role = h("select", { "aria-describedby": "role-hint", onchange: explain }, ...ROLES.map(([value, word]) => h("option", { value, selected: value === "drive" }, word)));
  explain();
  const told = h("p", { class: "complaint", role: "alert" });
  const made = h("div", { role: "status" });
  const button = h("button", { type: "submit", class: "button primary" }, "Make it");

  const show = async () => {
    try {
      /** @type {{ tokens: Token[] }} */
      const { tokens } = await ask("GET", "/tokens");
      fill(list, ...tokens.map((token) => h("li", { "data-token": token.name },
        h("div", { class: "words" },
          h("div", {}, h("strong", {}, token.name), " ", h("span", { class: "tag" }, token.role), token.name === me.name && h("span", { class: "soft" }, " you")),
          h("small", {}, `Made ${ago(token.created)}`)),
        h("button", { type: "button", class: "button bad", "aria-label": `Revoke ${token.name}`, onclick: () => void revoke(token) }, "Revoke"))));
    } catch (problem) {
      fill(list, h("li", { class: "complaint" }, /** @type {Error} */ (problem).message));
    }
  };

  /** @param {Token} token */
  const revoke = async (token) => {
    const self = token.name === me.name ? " You are signed in with it: this page is signed out too." : "";
    if (!(await confirmed(`Revoke ${token.name}?`, `Its link opens nothing any more, and whoever signed in with it is signed out at once.${self}`, "Revoke"))) return;
    if (!(await tried(ask("DELETE", `/tokens/${encodeURIComponent(token.name)}`)))) return;
    if (self) location.reload();
    await show();
    name.focus();
  };

  const form = h("form", { class: "token-form", onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    button.disabled = true;
    told.textContent = "";
    try {
      const { name: called, token } = await ask("POST", "/tokens", { name: name.value.trim(), role: role.value });
      fill(made, secret(called, token));
      name.value = "";
      await show();
      made.querySelector("input")?.select();
    } catch (problem) {
      told.textContent = /** @type {Error} */ (problem).message;
    } finally {
      button.disabled = false;
    }
  } },
    h("label", { class: "field" }, h("span", {}, "Name"), name),
    h("label", { class: "field" }, h("span", {}, "May"), role), button);

  openSheet({ title: "Tokens", body: [
    h("p", { class: "why" }, "Each person or device gets its own, so that one can be taken back without the others."),
    list, h("h3", {}, "New token"), form, hint, told, made,
  ] });
  void show();
}

/** What was made, to be copied now or never. @param {string} name @param {string} token */
function secret(name, token) {
  const link = `${location.origin}/#token=${encodeURIComponent(token)}`;
  return h("div", { class: "secret" }, h("p", {}, h("strong", {}, `${name} is made.`), " This is shown once: copy it now."),
    shown("Link for a browser", link), shown("Token for programs", token));
}

/** @param {string} words @param {string} value */
function shown(words, value) {
  const field = h("input", { type: "text", readonly: true, value, onfocus: () => field.select() });
  const button = h("button", { type: "button", class: "button", "aria-label": `Copy the ${words.toLowerCase()}`, onclick: () => {
    field.select();
    void navigator.clipboard?.writeText(value).then(() => {
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
  } }, "Copy");
  return h("div", { class: "with-button" }, h("label", { class: "field" }, h("span", {}, words), field), button);
}
