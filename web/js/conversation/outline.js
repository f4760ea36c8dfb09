/**
 * The prompts of a session, to go to one of them.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { fill, h } from "../ui/elements.js";
import { dateTime } from "../ui/format.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { visibleLine } from "../ui/visible-text.js";
import { openDialog } from "../dialogs/dialogs.js";
import { currentAddress, navigate } from "../ui/layers.js";

await loadStylesheet("/css/outline.css");

/** @typedef {import("../gateway.js").Outline} Outline */
/** @typedef {import("../gateway.js").OutlinePrompt} OutlinePrompt */

/** How many prompts are drawn before *Show more*. */
const PAGE = 300;

/** The address of an item in a conversation. @param {string} session @param {readonly number[]} position */
export function itemAddress(session, position) {
  return `#/s/${session}/at/${position.join(".")}`;
}

/** @param {import("../session-page.js").SessionPage} page */
export function openOutline(page) {
  const list = h("ol", { class: "outline" });
  const status = h("p", { class: "help-text", role: "status" }, "…");
  const field = h("input", {
    type: "search",
    class: "input",
    placeholder: "Find a message",
    "aria-label": "Find a message",
    autocomplete: "off",
  });
  const dialog = openDialog({
    title: "Your messages",
    class: "form outline-dialog",
    address: "outline",
    body: [field, status, list],
  });
  field.focus();
  void callApi("GET", sessionPath(page.id, "/outline")).then(
    (/** @type {Outline} */ outline) => {
      const shown = new PromptList(page, list, status, outline);
      field.addEventListener("input", () => shown.filter(field.value));
      dialog.addEventListener("keydown", (event) => shown.key(event, field));
      shown.filter("");
      list.lastElementChild?.scrollIntoView({ block: "nearest" });
    },
    (problem) => fill(status, problem.message),
  );
}

class PromptList {
  /** @param {import("../session-page.js").SessionPage} page @param {HTMLElement} list @param {HTMLElement} status @param {Outline} outline */
  constructor(page, list, status, outline) {
    this.page = page;
    this.list = list;
    this.status = status;
    this.outline = outline;
  }

  /** @param {string} letters */
  filter(letters) {
    const words = letters.toLowerCase().split(/\s+/).filter(Boolean);
    const all = this.outline.prompts;
    const found = all.filter(({ text }) => {
      const lower = text.toLowerCase();
      return words.every((word) => lower.includes(word));
    });
    this.#draw(found, Math.max(0, found.length - PAGE));
    const unlisted = this.outline.total - all.length;
    this.status.textContent = !all.length
      ? "Nothing was sent in this session yet."
      : !found.length
        ? "Nothing matches."
        : unlisted > 0
          ? `The newest ${all.length.toLocaleString()} of ${this.outline.total.toLocaleString()}.`
          : "";
    this.status.hidden = !this.status.textContent;
  }

  /** @param {OutlinePrompt[]} prompts @param {number} first */
  #draw(prompts, first) {
    fill(
      this.list,
      first > 0 &&
        h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              class: "button quiet",
              onclick: () => this.#draw(prompts, Math.max(0, first - PAGE)),
            },
            `Show ${Math.min(first, PAGE)} earlier ones`,
          ),
        ),
      ...prompts.slice(first).map((it) => this.#row(it)),
    );
  }

  /** @param {OutlinePrompt} prompt */
  #row(prompt) {
    const address = itemAddress(this.page.id, prompt.position);
    const go = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (currentAddress().base === address) void this.page.goTo(prompt.position.join("."));
      navigate(address);
    };
    return h(
      "li",
      {},
      h(
        "a",
        { href: address, onclick: go },
        h("span", { class: "number" }, prompt.turn || "–"),
        h("bdi", { class: "text", dir: "auto" }, visibleLine(prompt.text) || "(empty)"),
        prompt.at ? h("time", {}, dateTime(prompt.at)) : null,
      ),
    );
  }

  /** Arrows go through the list, from the field too. @param {KeyboardEvent} event @param {HTMLElement} field */
  key(event, field) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const links = [...this.list.querySelectorAll("a")];
    if (event.key === "Enter" && document.activeElement === field) {
      event.preventDefault();
      links.at(-1)?.click();
    }
    if (!step || !links.length) return;
    event.preventDefault();
    const here = links.indexOf(/** @type {HTMLAnchorElement} */ (document.activeElement));
    const next = here < 0 ? (step > 0 ? 0 : links.length - 1) : here + step;
    (links[next] ?? field).focus();
  }
}
