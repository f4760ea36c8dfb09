/**
 * One item on the page: the server's element for it, and the few things a page adds: a way to the
 * raw lines, copying, pictures, diffs side by side.
 *
 * @module
 */

import { at, ask, pictureAddress } from "./api.js";
import { h, icon, iconButton, PATHS } from "./elements.js";
import { nodes } from "./trusted.js";
import { clock, span } from "./words.js";

/** @typedef {import("./gateway.js").Item} Item */

/** Parts that may be longer or wider than their place. */
const SCROLLS = ".output, .diff, pre.code, .table";

/** What a person opened or closed, by item and place in it: it outlives the element. @type {Map<string, boolean>} */
const choices = new Map();

export class Entry {
  /**
   * @param {string} session
   * @param {Item} item
   * @param {{ drives: boolean, answer: (request: string, decision: "allow" | "deny") => void, again: (text: string) => void, me: () => string,
   *   comment: (line: import("./changes.js").Commented) => void, rewind: (prompt: import("./gateway.js").Prompt) => void, openFile: (path: string, turns: number[]) => void }} page
   */
  constructor(session, item, page) {
    this.session = session;
    this.page = page;
    this.element = h("div", { class: "entry" });
    this.children = h("div", { class: "children" });
    this.item = item;
    this.element.addEventListener("click", (event) => this.#clicked(event));
    this.element.addEventListener("toggle", () => this.#reach(), true);
    this.show(item);
  }

  /** @param {Item} item */
  show(item) {
    this.item = item;
    const fresh = nodes(item.html);
    const body = fresh.querySelector(".item");
    this.element.classList.toggle("open", Boolean(item.open));
    this.element.classList.toggle("housekeeping", Boolean(item.housekeeping));
    this.element.dataset.id = item.id;
    this.element.dataset.kind = item.kind;
    if (body) {
      if (item.grown) grow(body, item.grown);
      this.#adorn(body);
      const place = body.querySelector(":scope .children");
      if (place) place.replaceWith(this.children);
      else if (this.children.childNodes.length) (body.querySelector(".body") ?? body).append(this.children);
    }
    const raw = iconButton("Raw lines of this", PATHS.code, () => void import("./sheets.js").then((it) => it.showRaw(this.session, this.item)), { class: "icon-button raw-button" });
    this.element.replaceChildren(fresh, ...(body ? [raw] : []));
    this.#restore();
    this.tick(Date.now());
    if (body?.querySelector(SCROLLS)) requestAnimationFrame(() => this.#reach());
  }

  /** What scrolls by itself can be reached with the keyboard. */
  #reach() {
    for (const part of /** @type {NodeListOf<HTMLElement>} */ (this.element.querySelectorAll(SCROLLS))) {
      if (part.scrollHeight > part.clientHeight + 1 || part.scrollWidth > part.clientWidth + 1) part.tabIndex = 0;
    }
  }

  /** More of what is being written.
   * @param {{ settled: string, open: string }} more */
  grow(more) {
    const body = this.element.querySelector(".item");
    if (body) grow(body, more);
  }

  /** Takes in what a sub-agent said or did. */
  childPlace() {
    if (!this.children.isConnected) {
      const body = this.element.querySelector(".item .body") ?? this.element.querySelector(".item") ?? this.element;
      body.append(this.children);
    }
    return this.children;
  }

  /** Shows how long a call has been running.
   * @param {number} now */
  tick(now) {
    const { call } = this.item;
    if (!call?.began || call.ended || !["running", "waiting"].includes(call.state)) return;
    const summary = this.element.querySelector(":scope > .item > details > summary");
    if (!summary || now - call.began < 500) return;
    let took = summary.querySelector(".live-took");
    if (!took) {
      took = h("span", { class: "took live-took", "aria-hidden": "true" });
      summary.querySelector(".mark")?.before(took);
    }
    took.textContent = span(now - call.began);
  }

  /** @param {Element} body */
  #adorn(body) {
    const { call, prompt } = this.item;
    // Only what programs print has more colours than the page's own.
    if (call) void import("./styles.js").then((it) => it.styled("/colours.css"));
    for (const code of body.querySelectorAll("pre.code")) {
      code.append(h("button", { type: "button", class: "button copy", "data-do": "copy" }, "Copy"));
    }
    const diffs = body.querySelectorAll(".diff");
    if (diffs.length) {
      const comment = this.page.drives ? (/** @type {import("./diffs.js").Line} */ line) => this.page.comment({ path: call?.target ?? "", ...line }) : undefined;
      void import("./diffs.js").then((it) => diffs.forEach((diff) => it.addDiffTools(/** @type {HTMLElement} */ (diff), comment)));
    }
    if (call?.pictures && call.seq) {
      const place = body.querySelector(".body") ?? body;
      for (let n = 0; n < call.pictures; n += 1) place.append(this.#picture([call.seq], n));
    }
    if (call?.state === "waiting" && call.request && this.page.drives) this.#addAnswers(body, call.request, call.tool);
    if (this.item.cut) {
      (body.querySelector(".body") ?? body).append(h("button", { type: "button", class: "button quiet", "data-do": "whole" }, "Show all of it"));
    }
    if (prompt?.speaker === "person") this.#addSender(body, prompt);
  }

  /**
   * A picture in one of these entries. A prompt is told of by several, of which one has the picture.
   *
   * @param {number[]} entries
   * @param {number} n
   */
  #picture(entries, n) {
    const [first, ...rest] = entries;
    const picture = h("img", { src: pictureAddress(this.session, first, n), alt: `Picture ${n + 1}`, loading: "lazy" });
    picture.addEventListener("error", () => {
      const next = rest.shift();
      if (next === undefined) button.remove();
      else picture.src = pictureAddress(this.session, next, n);
    });
    const button = h("button", { type: "button", class: "shown-picture", "aria-label": `Open picture ${n + 1}`, "data-do": "picture" }, picture);
    return button;
  }

  /** @param {Element} body @param {string} request @param {string} tool */
  #addAnswers(body, request, tool) {
    const simple = !["AskUserQuestion", "ExitPlanMode"].includes(tool);
    const press = (/** @type {"allow" | "deny"} */ decision) => () => this.page.answer(request, decision);
    const row = simple
      ? h("div", { class: "in-place" },
          h("button", { type: "button", class: "button primary", onclick: press("allow") }, "Allow once"),
          h("button", { type: "button", class: "button bad", onclick: press("deny") }, "Deny"))
      : h("div", { class: "in-place" }, h("button", { type: "button", class: "button", onclick: () => document.querySelector(/** @type {any} */ (".request"))?.focus() }, "Answer below ", icon(PATHS.down)));
    body.querySelector(".body")?.after(row);
  }

  /** @param {Element} body @param {import("./gateway.js").Prompt} prompt */
  #addSender(body, prompt) {
    const words = body.querySelector(".words");
    const entries = [...new Set([this.item.place[0], this.item.first, this.item.rev])];
    for (let n = 0; words && n < (prompt.images ?? 0); n += 1) words.append(this.#picture(entries, n));
    const line = h("div", { class: "by" });
    const states = { queued: "waits", written: "on its way", accepted: "", done: "", cancelled: "taken back", indeterminate: "it is not known whether the agent got this" };
    if (prompt.by && prompt.by.name !== this.page.me()) line.append(`${prompt.by.name} · ${prompt.by.via}`);
    if (states[prompt.state]) line.append(line.textContent ? " · " : "", h("span", { class: "state" }, states[prompt.state]));
    if (prompt.state === "indeterminate") line.append(" ", h("button", { type: "button", class: "button quiet", onclick: () => this.page.again(prompt.text) }, "Send it again"));
    // The server's own time stands in UTC and links into an export.
    body.querySelector(".when")?.remove();
    if (this.item.at) line.prepend(h("time", {}, clock(this.item.at)), line.textContent ? " · " : "");
    // What the agent has not taken up cannot be gone back to.
    if (prompt.id && this.page.drives && !this.item.parent && ["accepted", "done"].includes(prompt.state)) {
      line.append(iconButton("Go back to before this prompt", PATHS.back, () => this.page.rewind(prompt), { class: "icon-button rewind-button" }));
    }
    if (line.childNodes.length) body.append(line);
  }

  /** @param {MouseEvent} event */
  #clicked(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.closest(".entry") !== this.element) return;
    const link = target.closest("a");
    if (link) {
      // A place within somebody's text is none of this page, whose own address says what is shown.
      if (link.getAttribute("href")?.startsWith("#")) event.preventDefault();
      link.target = "_blank";
      link.rel = "noopener noreferrer";
      return;
    }
    const summary = target.closest("summary");
    if (summary?.parentElement instanceof HTMLDetailsElement) {
      choices.set(this.#key(summary.parentElement), !summary.parentElement.open);
      return;
    }
    const act = /** @type {HTMLElement | null} */ (target.closest("[data-do]"));
    if (act?.dataset.do === "copy") copy(act);
    else if (act?.dataset.do === "picture") void import("./sheets.js").then((it) => it.showPicture(act.querySelector("img")?.src ?? ""));
    else if (act?.dataset.do === "whole") void this.#whole();
  }

  async #whole() {
    const { item } = await ask("GET", at(this.session, `/items/${encodeURIComponent(this.item.id)}`));
    this.show({ ...item, cut: false });
  }

  #restore() {
    for (const details of this.element.querySelectorAll("details")) {
      if (details.closest(".entry") !== this.element) continue;
      const open = choices.get(this.#key(details));
      if (open !== undefined) details.open = open;
    }
  }

  /** @param {HTMLDetailsElement} details */
  #key(details) {
    const own = [...this.element.querySelectorAll("details")].filter((it) => it.closest(".entry") === this.element);
    return `${this.item.id} ${own.indexOf(details)}`;
  }
}

/** @param {Element} body @param {{ settled: string, open: string }} more */
function grow(body, more) {
  if (more.settled) body.querySelector(".settled")?.append(nodes(more.settled));
  body.querySelector(".growing")?.replaceChildren(nodes(more.open));
}

/** @param {HTMLElement} button */
function copy(button) {
  const code = button.parentElement?.querySelector("code") ?? button.parentElement;
  const text = code === button.parentElement ? [...(code?.childNodes ?? [])].filter((it) => it !== button).map((it) => it.textContent).join("") : code?.textContent;
  void navigator.clipboard?.writeText(text ?? "").then(() => {
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}
