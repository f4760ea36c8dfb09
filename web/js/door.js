/**
 * The door: a token in, a cookie back.
 *
 * @module
 */

import { ask } from "./api.js";
import { fill, h } from "./elements.js";
import { styled } from "./styles.js";

await styled("/css/sheets.css");

/** @param {HTMLElement} place @param {string} complaint @param {() => void} enter */
export function door(place, complaint, enter) {
  const token = h("input", { type: "password", name: "token", autocomplete: "current-password", required: true, "aria-describedby": "complaint" });
  const told = h("p", { class: "complaint", id: "complaint", role: "alert" }, complaint);
  const button = h("button", { type: "submit", class: "button primary" }, "Sign in");
  const form = h("form", { onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await ask("POST", "/sign-in", { token: token.value.trim() });
      enter();
    } catch (problem) {
      told.textContent = /** @type {Error} */ (problem).message;
      token.select();
    } finally {
      button.disabled = false;
    }
  } },
    h("img", { src: "/icon.svg", alt: "" }), h("h1", {}, "Towpath"),
    h("p", {}, "Open the link that towpath serve printed, or paste its token here."),
    h("label", { class: "field" }, h("span", {}, "Token"), token), button, told);
  fill(place, h("main", { class: "door" }, form));
  token.focus();
}
