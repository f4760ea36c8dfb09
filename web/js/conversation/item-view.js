/**
 * One item on the page: the server's element for it, and what the page adds: raw lines, copy
 * buttons, images, diff tools.
 *
 * @module
 */

import { sessionPath, callApi, imageAddress } from "../api.js";
import { h, icon, iconButton, PATHS } from "../ui/elements.js";
import { htmlNodes } from "../ui/trusted-html.js";
import { actorText, clock, duration, relativePath } from "../ui/format.js";
import { toast } from "../ui/toast.js";

/** @typedef {import("./conversation.js").Item} Item */
/** @typedef {import("./conversation.js").AppendedHtml} AppendedHtml */

/** Parts that may scroll. */
const SCROLLABLE = ".output, .diff, pre.code, .table, .math.display";

const NO_HOVER = matchMedia("(hover: none)");

/** What calls do whose target is a file. */
const FILE_ACTIONS = ["read", "edit", "write"];

/** Details that the user opened or closed, by item; kept when an element is replaced. @type {Map<string, boolean>} */
const openDetails = new Map();

export class ItemView {
  /**
   * @param {string} session empty if the item is not in the journal
   * @param {Item} item
   * @param {{ canDrive: boolean, deny: (request: string) => void, resend: (text: string) => void, me: () => string,
   *   comment: (line: import("./file-changes.js").DiffLine) => void, canRewind: () => boolean, rewind: (prompt: import("../gateway.js").Prompt) => void, openFile: (path: string, turns: number[]) => void, directory?: () => string }} page
   */
  constructor(session, item, page) {
    this.session = session;
    this.page = page;
    this.element = h("div", { class: "entry" });
    this.children = h("div", { class: "children" });
    this.item = item;
    this.element.addEventListener("click", (event) => this.#clicked(event));
    this.element.addEventListener("toggle", () => this.#makeFocusable(), true);
    this.show(item);
  }

  /** @param {Item} item */
  show(item) {
    this.item = item;
    const fresh = htmlNodes(item.html);
    const body = fresh.querySelector(".item");
    this.element.classList.toggle("open", Boolean(item.open));
    this.element.classList.toggle("housekeeping", Boolean(item.housekeeping));
    this.element.dataset.id = item.id;
    this.element.dataset.kind = item.kind;
    if (body) {
      if (item.appended) appendHtml(body, item.appended);
      this.#addControls(body);
      const place = body.querySelector(":scope .children");
      if (place) place.replaceWith(this.children);
      else if (this.children.childNodes.length)
        (body.querySelector(".body") ?? body).append(this.children);
    }
    // Only what is in the journal has lines and images to ask for.
    const raw =
      this.session &&
      iconButton(
        "Show raw lines",
        PATHS.code,
        () =>
          void import("../dialogs/dialogs.js").then((it) => it.showRaw(this.session, this.item)),
        { class: "icon-button raw-button" },
      );
    this.element.replaceChildren(fresh, ...(body && raw ? [raw] : []));
    this.#restore();
    this.tick(Date.now());
    if (body?.querySelector(SCROLLABLE)) requestAnimationFrame(() => this.#makeFocusable());
  }

  /** Makes scrollable parts reachable with the keyboard. */
  #makeFocusable() {
    for (const part of /** @type {NodeListOf<HTMLElement>} */ (
      this.element.querySelectorAll(SCROLLABLE)
    )) {
      if (part.scrollHeight > part.clientHeight + 1 || part.scrollWidth > part.clientWidth + 1)
        part.tabIndex = 0;
    }
  }

  /** Adds HTML to an item that is being written. @param {AppendedHtml} more */
  append(more) {
    const body = this.element.querySelector(".item");
    if (body) appendHtml(body, more);
  }

  /** The element for the items of a sub-agent. */
  childPlace() {
    if (!this.children.isConnected) {
      const body =
        this.element.querySelector(".item .body") ??
        this.element.querySelector(".item") ??
        this.element;
      body.append(this.children);
    }
    return this.children;
  }

  /** Shows how long a call has been running. @param {number} now */
  tick(now) {
    const { call } = this.item;
    if (!call?.started || call.ended || !["running", "waiting"].includes(call.state)) return;
    const summary = this.element.querySelector(":scope > .item > details > summary");
    if (!summary || now - call.started < 500) return;
    let took = summary.querySelector(".live-took");
    if (!took) {
      took = h("span", { class: "took live-took", "aria-hidden": "true" });
      summary.querySelector(".mark")?.before(took);
    }
    took.textContent = duration(now - call.started);
  }

  /** Leads to a file of the session's directory. @param {Element} body @param {string} path */
  #addFileLink(body, path) {
    const place = body.querySelector(".body");
    if (!place || !path || path.startsWith("/") || path.startsWith("..")) return;
    const names = path.replaceAll("\\", "\\\\").split("/").map(encodeURIComponent);
    const href = `#/s/${this.session}/files/${names.join("/")}`;
    place.append(h("p", { class: "remark" }, h("a", { href }, "Open in Files")));
  }

  /** @param {Element} body */
  #addControls(body) {
    const { call, prompt } = this.item;
    // Only the output of programs uses these colours.
    if (call) void import("../ui/stylesheets.js").then((it) => it.loadStylesheet("/colours.css"));
    for (const code of body.querySelectorAll("pre.code")) {
      code.append(h("button", { type: "button", class: "button copy", "data-do": "copy" }, "Copy"));
      // A finger hovers over nothing, and what is in the code scrolls away with it.
      if (NO_HOVER.matches)
        code.before(
          h(
            "div",
            { class: "copy-place" },
            h(
              "button",
              {
                type: "button",
                class: "icon-button",
                "aria-label": "Copy the code",
                "data-do": "copy",
              },
              icon(PATHS.copy),
            ),
          ),
        );
    }
    const diffs = body.querySelectorAll(".diff");
    if (diffs.length) {
      const comment = this.page.canDrive
        ? (/** @type {import("./diffs.js").DiffRow} */ line) =>
            this.page.comment({ path: call?.target ?? "", ...line })
        : undefined;
      void import("./diffs.js").then((it) =>
        diffs.forEach((diff) => it.addDiffTools(/** @type {HTMLElement} */ (diff), comment)),
      );
    }
    if (call?.images && call.seq && this.session) {
      const place = body.querySelector(".body") ?? body;
      for (let n = 0; n < call.images; n += 1) place.append(this.#image([call.seq], n));
    }
    if (call && FILE_ACTIONS.includes(call.action) && this.page.canDrive && this.page.directory)
      this.#addFileLink(body, relativePath(call.target, this.page.directory()));
    if (call?.state === "waiting" && call.request && this.page.canDrive)
      this.#addAnswers(body, call.request);
    if (this.item.truncated && this.session) {
      (body.querySelector(".body") ?? body).append(
        h("button", { type: "button", class: "button quiet", "data-do": "whole" }, "Show all"),
      );
    }
    if (prompt?.author === "user") this.#addSender(body, prompt);
  }

  /**
   * An image in one of these entries. A prompt has several entries, one of which has the image.
   *
   * @param {number[]} entries
   * @param {number} n
   */
  #image(entries, n) {
    const [first, ...rest] = entries;
    const image = h("img", {
      src: imageAddress(this.session, first, n),
      alt: `Image ${n + 1}`,
      loading: "lazy",
    });
    image.addEventListener("error", () => {
      const next = rest.shift();
      if (next === undefined) button.remove();
      else image.src = imageAddress(this.session, next, n);
    });
    const button = h(
      "button",
      {
        type: "button",
        class: "image-button",
        "aria-label": `Open image ${n + 1}`,
        "data-do": "image",
      },
      image,
    );
    return button;
  }

  /**
   * A call is only allowed in its card, which shows everything that must be seen first.
   *
   * @param {Element} body
   * @param {string} request
   */
  #addAnswers(body, request) {
    const selector = `.request[data-request="${CSS.escape(request)}"], .request`;
    const review = () =>
      /** @type {HTMLElement | null} */ (document.querySelector(selector))?.focus();
    const row = h(
      "div",
      { class: "in-place" },
      h(
        "button",
        { type: "button", class: "button", onclick: review },
        "Review below ",
        icon(PATHS.down),
      ),
      h(
        "button",
        { type: "button", class: "button danger", onclick: () => this.page.deny(request) },
        "Deny",
      ),
    );
    // The card shows the same in full, so this is one line that leads to it.
    body.classList.add("asked");
    body.querySelector("details")?.removeAttribute("open");
    body.querySelector("summary")?.addEventListener("click", (event) => {
      event.preventDefault();
      review();
    });
    body.append(row);
  }

  /** @param {Element} body @param {import("../gateway.js").Prompt} prompt */
  #addSender(body, prompt) {
    const words = body.querySelector(".words");
    const entries = [...new Set([this.item.position[0], this.item.first, this.item.rev])];
    for (let n = 0; words && this.session && n < (prompt.images ?? 0); n += 1)
      words.append(this.#image(entries, n));
    const line = h("div", { class: "by" });
    const states = {
      queued: "queued",
      written: "sending",
      accepted: "",
      done: "",
      cancelled: "removed",
      indeterminate: "may not have reached the agent",
    };
    if (prompt.by && prompt.by.name !== this.page.me())
      line.append(actorText(prompt.by, this.page.me()));
    if (states[prompt.state])
      line.append(
        line.textContent ? " · " : "",
        h("span", { class: "state" }, states[prompt.state]),
      );
    if (prompt.state === "indeterminate")
      line.append(
        " ",
        h(
          "button",
          { type: "button", class: "button quiet", onclick: () => this.page.resend(prompt.text) },
          "Send again",
        ),
      );
    // The server's element has the time in UTC, with a link that only works in an export.
    body.querySelector(".when")?.remove();
    if (this.item.at)
      line.prepend(h("time", {}, clock(this.item.at)), line.textContent ? " · " : "");
    // Only a prompt that the agent has accepted can be rewound.
    if (
      prompt.id &&
      this.page.canDrive &&
      this.page.canRewind() &&
      !this.item.parent &&
      ["accepted", "done"].includes(prompt.state)
    ) {
      line.append(
        iconButton("Rewind to before this message", PATHS.back, () => this.page.rewind(prompt), {
          class: "icon-button rewind-button",
        }),
      );
    }
    if (line.childNodes.length) body.append(line);
  }

  /** @param {MouseEvent} event */
  #clicked(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.closest(".entry") !== this.element) return;
    const link = target.closest("a");
    if (link) {
      // A fragment link in a text would change the page's own address.
      if (link.getAttribute("href")?.startsWith("#")) event.preventDefault();
      link.target = "_blank";
      link.rel = "noopener noreferrer";
      return;
    }
    const summary = target.closest("summary");
    if (summary?.closest(".asked")) return;
    if (summary?.parentElement instanceof HTMLDetailsElement) {
      openDetails.set(this.#key(summary.parentElement), !summary.parentElement.open);
      return;
    }
    const act = /** @type {HTMLElement | null} */ (target.closest("[data-do]"));
    if (act?.dataset.do === "copy") copy(act);
    else if (act?.dataset.do === "image")
      void import("../dialogs/dialogs.js").then((it) =>
        it.showImage(act.querySelector("img")?.src ?? ""),
      );
    else if (act?.dataset.do === "whole") void this.#showWhole();
  }

  async #showWhole() {
    const path = sessionPath(this.session, `/items/${encodeURIComponent(this.item.id)}`);
    try {
      const { item } = await callApi("GET", path);
      this.show({ ...item, truncated: false });
    } catch (problem) {
      // An item that is too large to be shown can be read line by line.
      toast(/** @type {Error} */ (problem).message);
      const { showRaw } = await import("../dialogs/dialogs.js");
      await showRaw(this.session, this.item);
    }
  }

  #restore() {
    for (const details of this.element.querySelectorAll("details")) {
      if (details.closest(".entry") !== this.element || details.closest(".asked")) continue;
      const open = openDetails.get(this.#key(details));
      if (open !== undefined) details.open = open;
    }
  }

  /** @param {HTMLDetailsElement} details */
  #key(details) {
    const own = [...this.element.querySelectorAll("details")].filter(
      (it) => it.closest(".entry") === this.element,
    );
    return `${this.item.id} ${own.indexOf(details)}`;
  }
}

/** @param {Element} body @param {AppendedHtml} more */
function appendHtml(body, more) {
  if (more.html) body.querySelector(".stable")?.append(htmlNodes(more.html));
  body.querySelector(".tail")?.replaceChildren(htmlNodes(more.tail));
}

/** @param {HTMLElement} button */
function copy(button) {
  if (button.parentElement?.matches(".copy-place")) {
    const code = button.parentElement.nextElementSibling?.querySelector("code");
    void navigator.clipboard?.writeText(code?.textContent ?? "").then(() => toast("Copied."));
    return;
  }
  const code = button.parentElement?.querySelector("code") ?? button.parentElement;
  const text =
    code === button.parentElement
      ? [...(code?.childNodes ?? [])]
          .filter((it) => it !== button)
          .map((it) => it.textContent)
          .join("")
      : code?.textContent;
  void navigator.clipboard?.writeText(text ?? "").then(() => {
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}
