/**
 * Going back to before a prompt: what that would do to the files and to what the agent knows, and
 * then doing it.
 *
 * The agent keeps the copies of files, so it is asked first; what it cannot put back is not offered.
 *
 * @module
 */

import { ask, at } from "./api.js";
import { fill, h } from "./elements.js";
import { openSheet } from "./sheets.js";
import { several, within } from "./words.js";

/** @typedef {import("./gateway.js").RewindPreview} Preview */
/** @typedef {"both" | "conversation" | "files"} What */

/** @type {[What, string, string][]} */
const CHOICES = [
  ["both", "Files and conversation", "Files are put back, and the agent forgets this prompt and all that came after it"],
  ["conversation", "Conversation only", "The agent forgets; files stay as they are"],
  ["files", "Files only", "Files are put back; the agent still knows what was said"],
];

/**
 * @param {import("./session.js").SessionPage} page
 * @param {import("./gateway.js").Prompt} prompt
 */
export function openRewind(page, prompt) {
  const told = h("p", { class: "complaint", role: "alert" });
  const preview = h("div", { class: "preview", role: "status" }, h("p", { class: "why" }, "Asking the agent what it can put back …"));
  const button = h("button", { type: "submit", class: "button primary", form: "rewind", disabled: true }, "Go back");
  const options = CHOICES.map(([value, name, about]) => {
    const box = h("input", { type: "radio", name: "what", value });
    return { value, box, row: h("label", { class: "radio-field" }, box, h("span", {}, name, h("small", {}, about))) };
  });
  const form = h("form", { id: "rewind", onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    const what = options.find((it) => it.box.checked)?.value;
    if (!what) return;
    button.disabled = true;
    told.textContent = "";
    try {
      await ask("POST", at(page.id, "/rewind"), { prompt: prompt.id, what });
      dialog.close();
      // What was said is what one would say otherwise, so it is there to be changed.
      if (what !== "files" && page.composer.area.value === "") page.composer.put(prompt.text);
    } catch (problem) {
      told.textContent = /** @type {Error} */ (problem).message;
      button.disabled = false;
    }
  } },
    h("blockquote", { class: "quoted" }, prompt.text.length > 300 ? `${prompt.text.slice(0, 300)} …` : prompt.text),
    h("fieldset", { class: "radio-fields" }, h("legend", {}, "What goes back?"), ...options.map((it) => it.row)),
    preview,
    h("p", { class: "why" }, "Only files that the agent changed with its own tools are put back, not what its commands did. What was said stays readable here."), told);
  const dialog = openSheet({ title: "Go back to before this prompt", body: [form], foot: [h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Leave it"), button] });

  /** @param {What[]} possible */
  const offer = (possible) => {
    for (const { value, box, row } of options) {
      box.disabled = !possible.includes(value);
      row.classList.toggle("off", box.disabled);
    }
    const first = options.find((it) => !it.box.disabled);
    if (first) first.box.checked = true;
    button.disabled = !first;
    first?.box.focus();
  };

  const look = async () => {
    if (page.conversation?.busy) {
      fill(preview, h("p", { class: "complaint" }, "The agent is at work. Stop it first, then go back."));
      offer([]);
      return;
    }
    /** @type {Preview} */
    const told = await ask("GET", at(page.id, `/rewind?prompt=${prompt.id}`)).catch((problem) => ({ canRewind: false, error: problem.message }));
    const files = told.filesChanged ?? [];
    if (told.canRewind === false) {
      fill(preview, h("p", { class: "warning" }, `Files cannot be put back: ${told.error ?? "the agent has no copies of them"}`));
      offer(["conversation"]);
    } else if (!files.length) {
      fill(preview, h("p", { class: "why" }, "No file differs from what it was then."));
      offer(["conversation"]);
    } else {
      fill(preview, h("p", {}, `${several(files.length, "file")} would be put back: +${told.insertions ?? 0} −${told.deletions ?? 0} lines`),
        h("ul", {}, ...files.map((path) => h("li", {}, h("code", {}, within(path, page.conversation?.head.cwd))))));
      offer(["both", "conversation", "files"]);
    }
  };
  offer([]);
  void look();
}
