/**
 * The options of a session, what they are now, and when a change takes effect.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { formatValue, optionLabel } from "../options/option-field.js";
import { OptionFields } from "../options/option-fields.js";
import { saveOptions } from "../options/save-options.js";
import { WatchSection } from "../options/watch-section.js";
import { fill, h } from "../ui/elements.js";
import { plural } from "../ui/format.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { toast } from "../ui/toast.js";
import { visibleLine } from "../ui/visible-text.js";
import { openDialog } from "./dialogs.js";

await loadStylesheet("/css/session-settings.css");

/** @typedef {import("../gateway.js").OptionsResponse} Options */
/** @typedef {import("../session-page.js").SessionPage} SessionPage */

/** The groups of options by what a change does. */
const GROUPS = [
  ["live", "Applies at once", ""],
  [
    "restart",
    "Applies when the agent restarts",
    "A running turn is finished first. The agent then restarts with the whole conversation, and queued messages wait for it.",
  ],
  ["creation", "Set when the session was created", ""],
];

/** @param {SessionPage} page */
export function openSessionSettings(page) {
  const place = h("div", {}, h("p", {}, "…"));
  const error = h("p", { class: "form-error", role: "alert" });
  const status = h("p", { class: "sheet-status", role: "status" });
  const save = h(
    "button",
    { type: "submit", class: "button primary", form: "session-settings", disabled: true },
    "Save",
  );
  const form = h("form", { id: "session-settings", novalidate: true }, place, error);
  const dialog = openDialog({
    title: "Session settings",
    address: "session-settings",
    class: "form",
    body: [form],
    foot: page.canDrive ? [status, save] : undefined,
    unsaved: () => !save.disabled,
  });
  void load(page).then(
    ({ options, session, watch }) => {
      const settings = new Settings(page, options, session.options, watch, { error, status, save });
      const pending = "The agent restarts before its next turn, because options were changed.";
      fill(
        place,
        session.restart_pending && h("p", { class: "restart-pending" }, pending),
        ...settings.elements(),
      );
      form.addEventListener("input", () => settings.changed());
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        void settings.save().then((saved) => saved && dialog.close());
      });
    },
    (problem) => fill(place, h("p", { class: "form-error" }, problem.message)),
  );
}

/**
 * @param {SessionPage} page
 * @returns {Promise<{ options: Options, session: import("../gateway.js").SessionDetails, watch: import("../options/watch-section.js").WatchState }>}
 */
async function load(page) {
  const [session, watch, usual] = await Promise.all([
    callApi("GET", sessionPath(page.id)),
    callApi("GET", sessionPath(page.id, "/watch")),
    callApi("GET", "/watch").catch(() => ({})),
  ]);
  const options = await callApi("GET", `/options?cwd=${encodeURIComponent(session.cwd)}`);
  return { options, session, watch: { ...watch, usual: usual.default } };
}

class Settings {
  /**
   * @param {SessionPage} page
   * @param {Options} options
   * @param {object} values
   * @param {import("../options/watch-section.js").WatchState} watch
   * @param {{ error: HTMLElement, status: HTMLElement, save: HTMLButtonElement }} parts
   */
  constructor(page, options, values, watch, parts) {
    this.page = page;
    this.options = options;
    this.parts = parts;
    this.fields = new OptionFields(options.options, {
      me: page.app.me,
      bypassAllowed: options.bypass_allowed,
      refuse: (option) => {
        if (!page.canDrive) return "Your role can only watch.";
        return option.effect === "creation" ? "It cannot be changed any more." : undefined;
      },
    });
    this.fields.initialise(values);
    this.watch = new WatchSection(watch, page, () => this.changed());
  }

  elements() {
    const effects = new Map(this.options.options.map((it) => [it.name, it.effect]));
    const groups = GROUPS.map(([effect, title, about]) => {
      const fields = [...this.fields.byName.values()].filter(
        (it) => (effects.get(it.name) ?? "live") === effect,
      );
      return (
        fields.length > 0 &&
        h(
          "section",
          { class: "option-list" },
          h("h3", {}, title),
          about && h("p", { class: "option-help" }, about),
          ...fields.map((it) => it.element),
        )
      );
    });
    return [this.#profiles(), ...groups, this.watch.element];
  }

  /** A profile is entered into the fields, so that what it changes can be seen before it is saved. */
  #profiles() {
    const { profiles } = this.options;
    if (!profiles.length || !this.page.canDrive) return null;
    const select = h(
      "select",
      { "aria-label": "Profile" },
      ...profiles.map((it) => h("option", { value: it.name }, visibleLine(it.name))),
    );
    const note = h("p", { class: "option-help", role: "status" });
    const apply = () => {
      const profile = profiles.find((it) => it.name === select.value);
      if (!profile) return;
      this.fields.enter(profile.options);
      const entered = Object.entries(profile.options).map(
        ([name, value]) => `${optionLabel(name)}: ${visibleLine(formatValue(value))}`,
      );
      note.textContent = `Entered, not saved yet: ${entered.join(" · ")}`;
      this.changed();
    };
    return h(
      "section",
      { class: "apply-profile" },
      h("label", { class: "field" }, h("span", {}, "Profile"), select),
      h("button", { type: "button", class: "button", onclick: apply }, "Enter its values"),
      note,
    );
  }

  /** Says what saving would do. */
  changed() {
    const { status, save } = this.parts;
    const names = this.fields.changedNames();
    const count = names.length + Number(this.watch.isChanged());
    const restart = this.options.options.some(
      (it) => it.effect === "restart" && names.includes(it.name),
    );
    save.disabled = count === 0;
    const when = this.page.conversation?.busy ? "after this turn" : "with the next message";
    status.textContent = count
      ? `${plural(count, "change")}${restart ? `; the agent restarts ${when}` : ""}`
      : "";
  }

  /** Returns whether the changes were saved. */
  async save() {
    const { error, save } = this.parts;
    error.textContent = "";
    const changes = this.fields.changes();
    if (!changes) return false;
    save.disabled = true;
    try {
      if (Object.keys(changes).length && !(await saveOptions(this.page.id, changes))) return false;
      // What is saved must not be saved again if the rest is refused.
      this.fields.accept();
      if (this.watch.isChanged()) await this.watch.save();
      toast("Saved.");
      return true;
    } catch (problem) {
      const { message } = /** @type {Error} */ (problem);
      if (!this.fields.showProblem(message)) error.textContent = message;
      return false;
    } finally {
      save.disabled = false;
    }
  }
}
