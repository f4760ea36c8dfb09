/**
 * The dialog that lists branches, switches to one, and creates one.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { openDialog } from "../dialogs/dialogs.js";
import { fill, h } from "../ui/elements.js";
import { shortAge } from "../ui/format.js";

/** @typedef {import("../gateway.js").GitBranch} GitBranch */

/** How many branches are shown at once; others are found by typing. */
const MAX_SHOWN = 100;

/** @param {import("./git-view.js").GitView} view */
export function openBranches(view) {
  /** @type {GitBranch[]} */ let branches = [];
  const error = h("pre", { class: "form-error git-refusal", role: "alert" });
  const list = h("ul", { class: "git-branches", "aria-label": "Branches" });
  const name = h("input", {
    type: "text",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    maxlength: "200",
    oninput: () => draw(),
  });

  /** @param {string} branch @param {boolean} create */
  const choose = async (branch, create) => {
    error.textContent = "";
    if (await view.change("switch", { branch, create })) {
      dialog.close();
      return;
    }
    error.textContent = view.words.querySelector("pre")?.textContent ?? "";
    view.say("");
  };

  const draw = () => {
    const wanted = name.value.trim();
    const found = branches.filter((it) => it.name.toLowerCase().includes(wanted.toLowerCase()));
    const exists = branches.some((it) => it.name === wanted);
    const now = Date.now();
    fill(
      list,
      wanted &&
        !exists &&
        h(
          "li",
          {},
          h(
            "button",
            { type: "button", onclick: () => void choose(wanted, true) },
            h("span", { class: "git-name" }, `Create ${wanted}`),
            h("small", {}, "a new branch at the current commit"),
          ),
        ),
      ...found.slice(0, MAX_SHOWN).map((it) =>
        h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              "aria-current": it.current ? "true" : undefined,
              // Git makes a branch here that follows the one there.
              onclick: () =>
                void choose(it.remote ? it.name.replace(/^[^/]+\//, "") : it.name, false),
            },
            h("span", { class: "git-name" }, it.name),
            h(
              "small",
              {},
              [
                it.current && "current",
                !it.current && it.checked_out && "in another working tree",
                it.remote && "remote",
                shortAge(it.at, now),
                it.subject,
              ]
                .filter(Boolean)
                .join(" · "),
            ),
          ),
        ),
      ),
      found.length > MAX_SHOWN &&
        h("li", { class: "git-note" }, `${found.length - MAX_SHOWN} more: type a part of a name.`),
    );
  };

  const dialog = openDialog({
    title: "Branches",
    body: [
      h("label", { class: "field" }, h("span", {}, "Find or create a branch"), name),
      error,
      list,
    ],
  });
  name.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    list.querySelector("button")?.click();
  });
  name.focus();
  callApi("GET", sessionPath(view.page.id, "/git/branches")).then(
    (response) => {
      branches = response.branches;
      draw();
    },
    (problem) => (error.textContent = problem.message),
  );
}
