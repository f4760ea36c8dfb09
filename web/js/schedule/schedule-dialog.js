/**
 * Prompts that are sent later: writing one, and the list of those of a session.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { fill, h } from "../ui/elements.js";
import { openDialog } from "../dialogs/dialogs.js";
import { toast } from "../ui/toast.js";
import { dateTime } from "../ui/format.js";
import { loadStylesheet } from "../ui/stylesheets.js";

/** @typedef {import("../session-page.js").SessionPage} SessionPage */
/** @typedef {import("../gateway.js").Schedule} Schedule */

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** Kinds of times: the value, its name, and the field that it needs. @type {[string, string, string][]} */
const KINDS = [
  ["once", "Once", "date"],
  ["weekdays", "Every weekday", "time"],
  ["every day", "Every day", "time"],
  ["every", "Again and again", "length"],
];

/**
 * Opens the dialog. What is written in the composer is suggested as the text.
 *
 * @param {SessionPage} page
 */
export async function openSchedule(page) {
  await loadStylesheet("/css/schedule.css");
  const draft = page.canDrive ? page.composer.area.value : "";
  const place = h("div", {}, h("p", {}, "…"));
  const status = h("p", { class: "visually-hidden", role: "status" });
  const form = page.canDrive ? scheduleForm(draft, (body) => add(body)) : undefined;
  const dialog = openDialog({
    title: "Send later",
    address: "schedule",
    body: [form?.element, h("h3", { class: "schedule-heading" }, "Scheduled"), place, status],
    foot: form && [
      h("button", { class: "button primary", type: "submit", form: "schedule" }, "Schedule"),
    ],
    unsaved: () => form?.unsaved() ?? false,
  });

  /** @param {{ text: string, when: string }} body */
  const add = async (body) => {
    const path = sessionPath(page.id, "/schedules");
    const { schedules } = await callApi("POST", path, {
      id: crypto.randomUUID(),
      zone: ZONE,
      ...body,
    });
    // What was written is not to be sent a second time.
    if (draft && page.composer.area.value === draft && body.text === draft)
      page.composer.setText("");
    status.textContent = "Scheduled.";
    list(schedules);
  };

  /** @param {Schedule[]} schedules */
  const list = (schedules) =>
    fill(
      place,
      schedules.length
        ? h("ul", { class: "plain-list schedules" }, ...schedules.map(row))
        : h("p", { class: "help-text" }, "Nothing is scheduled in this session."),
    );

  const show = async () => {
    try {
      list((await callApi("GET", sessionPath(page.id, "/schedules"))).schedules);
    } catch (problem) {
      fill(place, h("p", { class: "form-error" }, /** @type {Error} */ (problem).message));
    }
  };

  /** @param {Schedule} schedule */
  const row = (schedule) =>
    h(
      "li",
      { "data-schedule": schedule.id },
      h(
        "div",
        { class: "words" },
        h("div", { class: "schedule-text", title: schedule.text }, schedule.text),
        h(
          "small",
          {},
          `${sentence(schedule.when)} (${schedule.zone}) · next ${dateTime(schedule.next)}`,
        ),
        h(
          "small",
          {},
          `By ${schedule.by.name} (${schedule.by.via}), ${dateTime(schedule.created)}`,
        ),
      ),
      page.canDrive &&
        h(
          "button",
          {
            type: "button",
            class: "button",
            "aria-label": `Remove ${schedule.when}: ${schedule.text.slice(0, 60)}`,
            onclick: () => void remove(schedule),
          },
          "Remove",
        ),
    );

  /** @param {Schedule} schedule */
  const remove = async (schedule) => {
    try {
      await callApi("DELETE", sessionPath(page.id, `/schedules/${schedule.id}`));
      status.textContent = "Removed. It is not sent.";
    } catch (problem) {
      // It may have been sent or removed meanwhile, which the new list shows.
      toast(/** @type {Error} */ (problem).message);
    }
    await show();
    /** @type {HTMLElement | null} */ (
      place.querySelector("button") ?? dialog.querySelector("button")
    )?.focus();
  };

  form?.focus();
  await show();
}

/**
 * Has the agent continue when the limit of the plan is reset.
 *
 * @param {{ id: string }} session
 * @param {number} resets in milliseconds since 1970
 * @returns {Promise<boolean>} whether it will
 */
export async function continueAt(session, resets) {
  // A minute later, so that a clock that is a little ahead does not meet the limit again.
  const minutes = Math.max(1, Math.ceil((resets - Date.now()) / 60_000) + 1);
  try {
    await callApi("POST", sessionPath(session.id, "/schedules"), {
      id: crypto.randomUUID(),
      text: "The usage limit has been reset. Go on where you stopped.",
      when: `in ${minutes}m`,
      zone: ZONE,
    });
    toast(`The agent continues at ${dateTime(resets + 60_000)}.`);
    return true;
  } catch (problem) {
    toast(/** @type {Error} */ (problem).message);
    return false;
  }
}

/**
 * @param {string} draft
 * @param {(body: { text: string, when: string }) => Promise<void>} add
 */
function scheduleForm(draft, add) {
  const text = h("textarea", { rows: "3", required: true, maxlength: "65536" });
  text.value = draft;
  const kind = h("select", {}, ...KINDS.map(([value, name]) => h("option", { value }, name)));
  /** @type {Record<string, HTMLInputElement>} */
  const inputs = {
    date: h("input", { type: "datetime-local", required: true }),
    time: h("input", { type: "time", value: "09:00", required: true }),
    length: h("input", { type: "text", value: "2h", required: true, placeholder: "30m, 2h, 1d" }),
  };
  inputs.date.value = tomorrowMorning();
  const fields = Object.entries({ date: "At", time: "At", length: "Every" }).map(([name, label]) =>
    h("label", { class: "field", "data-field": name }, h("span", {}, label), inputs[name]),
  );
  const error = h("p", { class: "form-error", role: "alert" });
  const refresh = () => {
    const needed = KINDS.find(([value]) => value === kind.value)?.[2];
    for (const field of fields) {
      const shown = field.dataset.field === needed;
      field.hidden = !shown;
      inputs[field.dataset.field ?? ""].disabled = !shown;
    }
  };
  kind.addEventListener("change", refresh);
  refresh();
  const element = h(
    "form",
    {
      id: "schedule",
      onsubmit: async (/** @type {Event} */ event) => {
        event.preventDefault();
        error.textContent = "";
        try {
          await add({ text: text.value, when: when(kind.value, inputs) });
          text.value = "";
        } catch (problem) {
          error.textContent = /** @type {Error} */ (problem).message;
        }
      },
    },
    h("label", { class: "field" }, h("span", {}, "Message"), text),
    h(
      "div",
      { class: "two" },
      h("label", { class: "field" }, h("span", {}, "When"), kind),
      ...fields,
    ),
    h("p", { class: "help-text" }, `Times are in ${ZONE}. Towpath must be running.`),
    error,
  );
  return {
    element,
    focus: () => text.focus(),
    unsaved: () => text.value.trim() !== "" && text.value !== draft,
  };
}

/** What the server reads. @param {string} kind @param {Record<string, HTMLInputElement>} inputs */
function when(kind, inputs) {
  if (kind === "once") return `at ${inputs.date.value.replace("T", " ")}`;
  if (kind === "every") return `every ${inputs.length.value.trim()}`;
  return `${kind} ${inputs.time.value}`;
}

/** In the format of the field. */
function tomorrowMorning() {
  const day = new Date(Date.now() + 86_400_000);
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  return `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}T09:00`;
}

/** @param {string} text */
function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
