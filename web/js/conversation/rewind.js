/**
 * Rewinding to before a message: a preview of the files, and the choice of what to restore.
 *
 * The agent has the copies of the files, so it is asked first. What it cannot restore is disabled.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { fill, h } from "../ui/elements.js";
import { openDialog } from "../dialogs/dialogs.js";
import { plural, relativePath } from "../ui/format.js";
import { loadStylesheet } from "../ui/stylesheets.js";

await loadStylesheet("/css/rewind.css");

/**
 * The agent's preview of the files it would restore.
 *
 * @typedef {{ canRewind?: boolean, error?: string, filesChanged?: string[], insertions?: number, deletions?: number }} Preview
 */
/** @typedef {import("../gateway.js").RewindScope} Scope */

/** @type {[Scope, string, string][]} */
const CHOICES = [
  [
    "both",
    "Files and conversation",
    "Restores the files, and the agent forgets this message and everything after it",
  ],
  ["conversation", "Conversation only", "The agent forgets; files are not changed"],
  ["files", "Files only", "Restores the files; the agent remembers the conversation"],
];

/**
 * Reading starts no agent, so it is started here if the server says that none runs.
 *
 * @param {string} session
 * @param {string} prompt
 * @returns {Promise<Preview>}
 */
async function askAgent(session, prompt) {
  const ask = () => callApi("GET", sessionPath(session, `/rewind?prompt=${prompt}`));
  try {
    return await ask();
  } catch (problem) {
    if (/** @type {import("../api.js").Problem} */ (problem).kind !== "no-agent") throw problem;
    await callApi("POST", sessionPath(session, "/wake"));
    return ask();
  }
}

/**
 * @param {import("../session-page.js").SessionPage} page
 * @param {import("../gateway.js").Prompt} prompt
 */
export function openRewind(page, prompt) {
  const error = h("p", { class: "form-error", role: "alert" });
  const preview = h(
    "div",
    { class: "preview", role: "status" },
    h("p", { class: "help-text" }, "Asking the agent what it can restore…"),
  );
  const button = h(
    "button",
    { type: "submit", class: "button primary", form: "rewind", disabled: true },
    "Rewind",
  );
  const options = CHOICES.map(([value, name, about]) => {
    const box = h("input", { type: "radio", name: "what", value });
    return {
      value,
      box,
      row: h("label", { class: "radio-field" }, box, h("span", {}, name, h("small", {}, about))),
    };
  });
  const form = h(
    "form",
    {
      id: "rewind",
      onsubmit: async (/** @type {Event} */ event) => {
        event.preventDefault();
        const what = options.find((it) => it.box.checked)?.value;
        if (!what) return;
        button.disabled = true;
        error.textContent = "";
        try {
          await callApi("POST", sessionPath(page.id, "/rewind"), { prompt: prompt.id, what });
          dialog.close();
          // The message is put into the composer, to be edited and sent again.
          if (what !== "files" && page.composer.area.value === "")
            page.composer.setText(prompt.text);
        } catch (problem) {
          error.textContent = /** @type {Error} */ (problem).message;
          button.disabled = false;
        }
      },
    },
    h(
      "blockquote",
      { class: "quoted" },
      prompt.text.length > 300 ? `${prompt.text.slice(0, 300)} …` : prompt.text,
    ),
    h(
      "fieldset",
      { class: "radio-fields" },
      h("legend", {}, "What to restore"),
      ...options.map((it) => it.row),
    ),
    preview,
    h(
      "p",
      { class: "help-text" },
      "Only files that the agent changed with its edit tools are restored, not what its commands did. The conversation stays readable here.",
    ),
    error,
  );
  const dialog = openDialog({
    title: "Rewind to before this message",
    body: [form],
    foot: [
      h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel"),
      button,
    ],
  });

  /** @param {Scope[]} possible */
  const enable = (possible) => {
    for (const { value, box, row } of options) {
      box.disabled = !possible.includes(value);
      row.classList.toggle("off", box.disabled);
    }
    const first = options.find((it) => !it.box.disabled);
    if (first) first.box.checked = true;
    button.disabled = !first;
    first?.box.focus();
  };

  const loadPreview = async () => {
    if (page.conversation?.busy) {
      fill(
        preview,
        h("p", { class: "form-error" }, "The agent is working. Stop it first, then rewind."),
      );
      enable([]);
      return;
    }
    /** @type {Preview} */
    const files = await askAgent(page.id, prompt.id ?? "").catch((problem) => ({
      canRewind: false,
      error: problem.message,
    }));
    const changed = files.filesChanged ?? [];
    if (files.canRewind === false) {
      fill(
        preview,
        h(
          "p",
          { class: "warning" },
          `Files cannot be restored: ${files.error ?? "the agent has no copies of them"}`,
        ),
      );
      enable(["conversation"]);
    } else if (!changed.length) {
      fill(preview, h("p", { class: "help-text" }, "No file has changed since then."));
      enable(["conversation"]);
    } else {
      fill(
        preview,
        h(
          "p",
          {},
          `${plural(changed.length, "file")} would be restored: +${files.insertions ?? 0} −${files.deletions ?? 0} lines`,
        ),
        h(
          "ul",
          {},
          ...changed.map((path) =>
            h("li", {}, h("code", {}, relativePath(path, page.conversation?.head.cwd))),
          ),
        ),
      );
      enable(["both", "conversation", "files"]);
    }
  };
  enable([]);
  void loadPreview();
}
