/**
 * The conversation on the page: turn by turn, items by position, those of a sub-agent inside its
 * call.
 *
 * @module
 */

import { comparePositions } from "./conversation.js";
import { fill, h, iconButton, PATHS } from "../ui/elements.js";
import { ItemView } from "./item-view.js";
import { preferences } from "../preferences.js";
import { htmlNodes } from "../ui/trusted-html.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */
/** @typedef {import("./conversation.js").Changes} Changes */

/** Loaded with the first calls. @type {typeof import("./call-groups.js") | undefined} */
let groups;

export class Transcript {
  /**
   * @param {string} session empty if the conversation is not in the journal
   * @param {HTMLElement} log
   * @param {ConstructorParameters<typeof ItemView>[2]} page
   */
  constructor(session, log, page) {
    this.session = session;
    this.log = log;
    this.page = page;
    /** @type {Map<string, ItemView>} */ this.entries = new Map();
    /** @type {Map<number, HTMLElement>} */ this.turns = new Map();
    this.expanded = new Set();
  }

  /**
   * Shows a conversation. Elements of items that did not change are kept.
   *
   * @param {Conversation} conversation
   */
  show(conversation) {
    this.conversation = conversation;
    for (const id of [...this.entries.keys()]) if (!conversation.items.has(id)) this.#remove(id);
    for (const item of sorted(conversation.items.values())) {
      const known = this.entries.get(item.id);
      if (!known || known.item.rev !== item.rev || known.item !== item) this.#put(item);
    }
    for (const number of [...this.turns.keys()])
      if (!conversation.turns.has(number) && !this.turns.get(number)?.querySelector(".entry"))
        this.#removeTurn(number);
    for (const number of conversation.turns.keys()) this.#end(number);
    this.#group();
  }

  /** @param {Changes} changes */
  update(changes) {
    const { conversation } = this;
    if (!conversation) return;
    for (const id of changes.removed) this.#remove(id);
    const items = [...changes.items]
      .map((id) => conversation.items.get(id))
      .filter((item) => item !== undefined);
    for (const item of sorted(items)) this.#put(item);
    for (const [id, more] of changes.appended) this.entries.get(id)?.append(more);
    for (const number of changes.turns) this.#end(number);
    if (changes.items.size || changes.removed.size) this.#group();
  }

  /** Folds what repeats itself. */
  #group() {
    // Few conversations begin with calls that make a group.
    if (groups) groups.groupCalls(this.log, this.expanded);
    else if (this.log.querySelectorAll(".item.call").length > 2)
      void import("./call-groups.js").then((it) => {
        groups = it;
        groups.groupCalls(this.log, this.expanded);
      });
    if (this.log.querySelector(".note.error"))
      void import("./repeated-errors.js").then((it) => it.foldRepeatedErrors(this.log));
  }

  /** @param {number} now */
  tick(now) {
    for (const entry of this.entries.values()) entry.tick(now);
  }

  clear() {
    this.entries.clear();
    this.turns.clear();
    this.conversation = undefined;
    this.log.querySelectorAll("section.turn").forEach((turn) => turn.remove());
  }

  /** @param {import("./conversation.js").Item} item */
  #put(item) {
    let entry = this.entries.get(item.id);
    const moved =
      !entry ||
      comparePositions(entry.item.position, item.position) !== 0 ||
      entry.item.turn !== item.turn ||
      entry.item.parent !== item.parent;
    if (entry) entry.show(item);
    else {
      entry = new ItemView(this.session, item, this.page);
      this.entries.set(item.id, entry);
    }
    entry.element.hidden =
      item.html === "" || Boolean(item.housekeeping && !preferences.everything);
    if (!moved) return;
    const parent =
      item.parent && item.parent !== item.id ? this.entries.get(item.parent) : undefined;
    const container =
      parent && !entry.element.contains(parent.element)
        ? parent.childPlace()
        : this.#turn(item.turn);
    this.#insert(container, entry);
    // Items of a sub-agent that came before its call are moved into it.
    for (const other of this.entries.values()) {
      if (
        other.item.parent === item.id &&
        other !== entry &&
        other.element.parentElement !== entry.children
      )
        this.#insert(entry.childPlace(), other);
    }
  }

  /** @param {HTMLElement} container @param {ItemView} entry */
  #insert(container, entry) {
    let next = /** @type {Element | null} */ (container.querySelector(":scope > .end"));
    let before = next ? next.previousElementSibling : container.lastElementChild;
    for (; before; before = before.previousElementSibling) {
      const other =
        before instanceof HTMLElement &&
        before !== entry.element &&
        this.entries.get(before.dataset.id ?? "");
      if (other && comparePositions(other.item.position, entry.item.position) <= 0) break;
      if (before !== entry.element) next = before;
    }
    container.insertBefore(entry.element, next);
  }

  /** @param {string} id */
  #remove(id) {
    const entry = this.entries.get(id);
    if (!entry) return;
    this.entries.delete(id);
    // Items inside it are kept.
    for (const child of [...entry.children.children]) {
      const other = child instanceof HTMLElement && this.entries.get(child.dataset.id ?? "");
      if (other) this.#insert(this.#turn(other.item.turn), other);
    }
    entry.element.remove();
  }

  /** @param {number} number */
  #turn(number) {
    const known = this.turns.get(number);
    if (known) return known;
    const section = h("section", {
      class: "turn",
      "data-turn": number,
      "aria-label": number ? `Turn ${number}` : "Before the first turn",
    });
    this.turns.set(number, section);
    const later = [...this.turns.entries()]
      .filter(([other]) => other > number)
      .sort(([a], [b]) => a - b)[0];
    this.log.insertBefore(section, later ? later[1] : null);
    return section;
  }

  /** @param {number} number */
  #removeTurn(number) {
    this.turns.get(number)?.remove();
    this.turns.delete(number);
  }

  /** @param {number} number */
  #end(number) {
    const turn = this.conversation?.turns.get(number);
    if (!turn && !this.turns.get(number)?.querySelector(".entry")) {
      this.#removeTurn(number);
      return;
    }
    const section = this.#turn(number);
    section.classList.toggle("rewound", Boolean(turn?.rewound));
    section.querySelector(":scope > .end")?.remove();
    if (!turn?.html) return;
    const end = htmlNodes(turn.html);
    end.querySelectorAll(".files li").forEach((row, n) => {
      const file = turn.files?.[n];
      if (file && this.session)
        fill(
          row,
          h(
            "button",
            {
              type: "button",
              class: "file-link",
              onclick: () => this.page.openFile(file.path, [number]),
            },
            ...row.childNodes,
          ),
        );
    });
    if (this.session) end.querySelector(".end")?.append(this.#turnButtons(number));
    section.append(end);
  }

  /** @param {number} number */
  #turnButtons(number) {
    const act = (/** @type {"copyAnswer" | "copyLink"} */ name) => () => {
      const { conversation } = this;
      if (conversation)
        void import("./turn-actions.js").then((it) => it[name](this.session, conversation, number));
    };
    return h(
      "span",
      { class: "turn-buttons" },
      iconButton("Copy the answer", PATHS.copy, act("copyAnswer")),
      iconButton("Copy a link to this turn", PATHS.link, act("copyLink")),
    );
  }
}

/** @param {Iterable<import("./conversation.js").Item>} items */
function sorted(items) {
  return [...items].sort((a, b) => comparePositions(a.position, b.position));
}
