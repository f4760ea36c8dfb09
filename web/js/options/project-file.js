/**
 * The settings that a project brings along. They apply only once someone with the role `admin` has
 * read and trusted them, because the author of the project wrote them.
 *
 * @module
 */

import { callApi } from "../api.js";
import { h } from "../ui/elements.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { visibleLine, visibleText } from "../ui/visible-text.js";
import { Visibility } from "../ui/visibility.js";

await loadStylesheet("/css/project-file.css");

/**
 * @param {import("../gateway.js").ProjectResponse} project
 * @param {string} cwd
 * @param {boolean} mayTrust
 * @param {() => void} changed
 */
export function projectFile(project, cwd, mayTrust, changed) {
  const error = h("p", { class: "form-error", role: "alert" });
  const decide = async (/** @type {string} */ method, /** @type {object} */ body) => {
    try {
      await callApi(method, "/projects/trust", body);
      changed();
    } catch (problem) {
      error.textContent = /** @type {Error} */ (problem).message;
    }
  };
  const path = h("code", {}, visibleLine(project.path));
  const text = h(
    "pre",
    { class: "project-text", tabindex: "0", role: "region", "aria-label": "Content of the file" },
    visibleText(project.text),
  );
  if (project.trusted)
    return h(
      "section",
      { class: "project-file trusted", "aria-label": "Settings of the project" },
      h(
        "details",
        {},
        h("summary", {}, h("span", {}, "Settings of the project are trusted: ", path)),
        text,
        mayTrust &&
          h(
            "button",
            { type: "button", class: "button", onclick: () => void decide("DELETE", { cwd }) },
            "Stop trusting this file",
          ),
      ),
      error,
    );
  const visibility = new Visibility(text);
  const trust = h(
    "button",
    {
      type: "button",
      class: "button",
      onclick: () => void decide("POST", { cwd, digest: project.digest }),
    },
    "Trust this file",
  );
  visibility.changed = () => (trust.disabled = !visibility.complete);
  visibility.changed();
  return h(
    "section",
    { class: "project-file", "aria-label": "Settings of the project" },
    h("p", {}, h("strong", {}, "This project has settings of its own "), "in ", path, "."),
    h(
      "p",
      { class: "option-help" },
      "They are not applied, because they are not trusted yet. Read the whole file: it can start programs on this machine.",
    ),
    text,
    mayTrust
      ? h("div", { class: "project-actions" }, trust, visibility.button)
      : h("p", { class: "option-help" }, "Someone with the role admin can trust this file."),
    error,
  );
}
