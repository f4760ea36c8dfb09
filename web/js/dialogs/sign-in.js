/**
 * The sign-in form.
 *
 * @module
 */

import { callApi, deviceModel } from "../api.js";
import { fill, h } from "../ui/elements.js";
import { loadStylesheet } from "../ui/stylesheets.js";

await Promise.all(["/css/fields.css", "/css/sign-in.css"].map(loadStylesheet));

/**
 * @param {HTMLElement} place
 * @param {string} message why the browser is not signed in
 * @param {() => void} signedIn
 */
export function showSignIn(place, message, signedIn) {
  const token = h("input", {
    type: "password",
    name: "token",
    autocomplete: "current-password",
    required: true,
    "aria-describedby": "sign-in-error",
  });
  const error = h("p", { class: "form-error", id: "sign-in-error", role: "alert" }, message);
  const button = h("button", { type: "submit", class: "button primary" }, "Sign in");
  const form = h(
    "form",
    {
      onsubmit: async (/** @type {Event} */ event) => {
        event.preventDefault();
        button.disabled = true;
        try {
          await callApi("POST", "/sign-in", {
            token: token.value.trim(),
            device: await deviceModel(),
          });
          signedIn();
        } catch (problem) {
          error.textContent = /** @type {Error} */ (problem).message;
          token.select();
        } finally {
          button.disabled = false;
        }
      },
    },
    h("img", { src: "/icon.svg", alt: "" }),
    h("h1", {}, "Towpath"),
    h("p", {}, "Open the link that towpath serve printed, or paste a token here."),
    h("label", { class: "field" }, h("span", {}, "Access token"), token),
    button,
    error,
  );
  fill(place, h("main", { class: "sign-in" }, form));
  token.focus();
}
