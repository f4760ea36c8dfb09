/**
 * Access tokens: listing, creating and revoking them.
 *
 * The server returns the secret of a token once, when it is created. The page does not keep it: it is
 * gone when the dialog closes.
 *
 * @module
 */

import { callApi } from "../api.js";
import { fill, h } from "../ui/elements.js";
import { confirmAction, openDialog } from "./dialogs.js";
import { reportErrors } from "../session-actions.js";
import { dateTime } from "../ui/format.js";
import { loadStylesheet } from "../ui/stylesheets.js";

await loadStylesheet("/css/tokens.css");

/** @typedef {import("../gateway.js").Token} Token */

const ROLES = /** @type {const} */ ([
  ["watch", "Watch", "Can read everything and change nothing."],
  ["drive", "Drive", "Can also send messages, answer requests, and create and delete sessions."],
  ["admin", "Admin", "Can also manage access tokens and open shells."],
]);

/** @param {import("../gateway.js").Me} me */
export function openTokens(me) {
  const list = h("ul", { class: "plain-list", "aria-label": "Tokens" }, h("li", {}, "…"));
  const name = h("input", {
    type: "text",
    required: true,
    maxlength: "64",
    pattern: "[A-Za-z0-9._\\-]+",
    placeholder: "phone",
    autocapitalize: "off",
    autocomplete: "off",
    spellcheck: "false",
    title: "Letters, digits, - _ and .",
  });
  const hint = h("p", { class: "help-text", id: "role-hint" });
  const explain = () => {
    hint.textContent = ROLES.find(([value]) => value === role.value)?.[2] ?? "";
    // An admin may anyway, and who only watches never.
    mayHaveShell.hidden = role.value !== "drive";
  };
  const role = h(
    "select",
    { "aria-describedby": "role-hint", onchange: explain },
    ...ROLES.map(([value, word]) => h("option", { value, selected: value === "drive" }, word)),
  );
  const shell = h("input", { type: "checkbox" });
  const mayHaveShell = h(
    "label",
    { class: "token-shell" },
    h(
      "span",
      {},
      "May open a shell",
      h("small", {}, "A shell can do everything that you can do on the machine."),
    ),
    shell,
  );
  explain();
  const error = h("p", { class: "form-error", role: "alert" });
  const created = h("div", { role: "status" });
  const button = h("button", { type: "submit", class: "button primary" }, "Create token");

  const show = async () => {
    try {
      /** @type {{ tokens: Token[] }} */
      const { tokens } = await callApi("GET", "/tokens");
      fill(
        list,
        ...tokens.map((token) =>
          h(
            "li",
            { "data-token": token.name },
            h(
              "div",
              { class: "words" },
              h(
                "div",
                {},
                h("strong", {}, token.name),
                " ",
                h("span", { class: "tag" }, token.role),
                token.shell && h("span", { class: "tag" }, "shell"),
                token.name === me.name && h("span", { class: "soft" }, " (you)"),
              ),
              h("small", {}, `Created ${dateTime(token.created)}`),
            ),
            h(
              "button",
              {
                type: "button",
                class: "button danger",
                "aria-label": `Revoke ${token.name}`,
                onclick: () => void revoke(token),
              },
              "Revoke",
            ),
          ),
        ),
      );
    } catch (problem) {
      fill(list, h("li", { class: "form-error" }, /** @type {Error} */ (problem).message));
    }
  };

  /** @param {Token} token */
  const revoke = async (token) => {
    const self = token.name === me.name ? " This also signs out this page." : "";
    if (
      !(await confirmAction(
        `Revoke ${token.name}?`,
        `Its link stops working, and browsers that signed in with it are signed out.${self}`,
        "Revoke",
      ))
    )
      return;
    if (!(await reportErrors(callApi("DELETE", `/tokens/${encodeURIComponent(token.name)}`))))
      return;
    if (self) location.reload();
    await show();
    name.focus();
  };

  const form = h(
    "form",
    {
      class: "token-form",
      onsubmit: async (/** @type {Event} */ event) => {
        event.preventDefault();
        button.disabled = true;
        error.textContent = "";
        try {
          const {
            name: label,
            token,
            qr,
          } = await callApi("POST", "/tokens", {
            name: name.value.trim(),
            role: role.value,
            shell: shell.checked && role.value !== "watch",
          });
          fill(created, secret(label, token, qr));
          name.value = "";
          await show();
          created.querySelector("input")?.select();
        } catch (problem) {
          error.textContent = /** @type {Error} */ (problem).message;
        } finally {
          button.disabled = false;
        }
      },
    },
    h("label", { class: "field" }, h("span", {}, "Name"), name),
    h("label", { class: "field" }, h("span", {}, "Role"), role),
    button,
  );

  openDialog({
    title: "Access tokens",
    address: "tokens",
    body: [
      h(
        "p",
        { class: "help-text" },
        "Create one for each person or device, so that each can be revoked separately.",
      ),
      list,
      h("h3", {}, "New token"),
      form,
      hint,
      mayHaveShell,
      error,
      created,
    ],
  });
  void show();
}

/**
 * The new token, which is shown once.
 *
 * @param {string} name
 * @param {string} token
 * @param {string | undefined} qr a picture of the link
 */
function secret(name, token, qr) {
  const link = `${location.origin}/#token=${encodeURIComponent(token)}`;
  return h(
    "div",
    { class: "secret" },
    h("p", {}, h("strong", {}, `Token ${name} created.`), " Copy it now: it is not shown again."),
    qr
      ? h(
          "figure",
          { class: "qr" },
          h("img", {
            src: `data:image/svg+xml,${encodeURIComponent(qr)}`,
            alt: `QR code of the sign-in link of ${name}`,
          }),
          h("figcaption", {}, "Scan it with the camera of a phone to sign in there."),
        )
      : h(
          "p",
          { class: "help-text" },
          "Only this machine can open this address. To sign in on a phone, open this page at an address that the phone can reach, and create the token there.",
        ),
    copyField("Sign-in link", link),
    copyField("Token for programs", token),
  );
}

/** @param {string} label @param {string} value */
function copyField(label, value) {
  const field = h("input", { type: "text", readonly: true, value, onfocus: () => field.select() });
  const button = h(
    "button",
    {
      type: "button",
      class: "button",
      "aria-label": `Copy the ${label.toLowerCase()}`,
      onclick: () => {
        field.select();
        void navigator.clipboard?.writeText(value).then(() => {
          button.textContent = "Copied";
          setTimeout(() => (button.textContent = "Copy"), 1500);
        });
      },
    },
    "Copy",
  );
  return h(
    "div",
    { class: "with-button" },
    h("label", { class: "field" }, h("span", {}, label), field),
    button,
  );
}
