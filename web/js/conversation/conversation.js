/**
 * The newest part of a session as the server sent it, and how updates are applied.
 *
 * Nothing here touches the page. Every patch has whole values or an offset, so a repeated or late
 * one changes nothing. One that does not fit means that something was missed, and a snapshot is
 * requested.
 *
 * @module
 */

/** @typedef {{ html: string, tail: string }} AppendedHtml */
/** @typedef {import("../gateway.js").Item & { appended?: AppendedHtml }} Item An item, with the HTML that was appended since `html` was sent. */
/** @typedef {import("../gateway.js").Turn} Turn */
/** @typedef {import("../gateway.js").Patch} Patch */
/** @typedef {import("../gateway.js").Snapshot} Snapshot */
/** @typedef {import("../gateway.js").ItemPage} ItemPage */
/** @typedef {"head" | "status" | "queue" | "requests" | "todos" | "usage"} Part */

/** What an update changed. */
export class Changes {
  constructor() {
    /** @type {Set<string>} */ this.items = new Set();
    /** @type {Map<string, AppendedHtml>} */ this.appended = new Map();
    /** @type {Set<string>} */ this.removed = new Set();
    /** @type {Set<number>} */ this.turns = new Set();
    /** @type {Set<Part>} */ this.parts = new Set();
  }
}

export class Conversation {
  /** @param {Snapshot} snapshot */
  constructor(snapshot) {
    this.revision = snapshot.revision;
    this.head = snapshot.head;
    this.status = snapshot.status;
    this.queue = snapshot.queue;
    this.requests = snapshot.requests;
    this.todos = snapshot.todos;
    this.usage = snapshot.usage;
    this.more = snapshot.more;
    /** @type {Map<string, Item>} */
    this.items = new Map(snapshot.items.map((item) => [item.id, item]));
    /** @type {Map<number, Turn>} */
    this.turns = new Map(snapshot.turns.map((turn) => [turn.number, turn]));
  }

  /** Whether a turn is running. */
  get busy() {
    return !["idle", "stopped"].includes(this.status.phase.kind);
  }

  /**
   * Applies an update. Returns `undefined` if it does not fit.
   *
   * @param {{ from: number, to: number, patches: Patch[] }} update
   * @returns {Changes | undefined}
   */
  apply(update) {
    const changes = new Changes();
    if (update.to <= this.revision) return changes;
    if (update.from > this.revision) return undefined;
    for (const patch of update.patches) if (!this.#patch(patch, changes)) return undefined;
    this.revision = update.to;
    return changes;
  }

  /**
   * Adds older items.
   *
   * @param {ItemPage} page
   */
  prepend(page) {
    const changes = new Changes();
    for (const item of page.items) {
      if (this.items.has(item.id)) continue;
      this.items.set(item.id, item);
      changes.items.add(item.id);
    }
    for (const turn of page.turns) {
      if (this.turns.has(turn.number)) continue;
      this.turns.set(turn.number, turn);
      changes.turns.add(turn.number);
    }
    this.more = page.more;
    return changes;
  }

  /**
   * Removes the oldest turns, so that a page that is open for days stays fast. They are loaded
   * again on scrolling up. Turns are removed as a whole, because calls contain the items of their
   * sub-agents.
   *
   * @param {number} maxItems how many items may remain, unless the last turn alone has more
   */
  trim(maxItems) {
    const changes = new Changes();
    /** @type {Map<number, string[]>} */ const turns = new Map();
    for (const item of this.items.values())
      turns.set(item.turn, [...(turns.get(item.turn) ?? []), item.id]);
    const oldest = [...turns.keys()].sort((a, b) => a - b).slice(0, -1);
    for (const number of oldest) {
      if (this.items.size <= maxItems) break;
      for (const id of turns.get(number) ?? []) {
        this.items.delete(id);
        changes.removed.add(id);
      }
      this.turns.delete(number);
      changes.turns.add(number);
      this.more = true;
    }
    return changes;
  }

  /** Whether a prompt is here, sent or queued. @param {string} id */
  hasPrompt(id) {
    const isIt = (/** @type {{ id?: string | null }} */ it) => it.id === id;
    return this.queue.some(isIt) || [...this.items.values()].some((it) => isIt(it.prompt ?? {}));
  }

  /** The position of the first item, for requesting older ones. */
  get first() {
    let first = /** @type {Item["position"] | undefined} */ (undefined);
    for (const { position } of this.items.values())
      if (!first || comparePositions(position, first) < 0) first = position;
    return first && first.join(".");
  }

  /**
   * @param {Patch} patch
   * @param {Changes} changes
   * @returns {boolean} whether it fits
   */
  #patch(patch, changes) {
    switch (patch.patch) {
      case "item": {
        const { item } = patch;
        const known = this.items.get(item.id);
        if (known && known.rev >= item.rev) return true;
        this.items.set(item.id, item);
        changes.items.add(item.id);
        changes.appended.delete(item.id);
        changes.removed.delete(item.id);
        return true;
      }
      case "append": {
        const item = this.items.get(patch.id);
        if (!item) return false;
        if (item.rev >= patch.rev) return true;
        if ((item.stable_length ?? 0) !== patch.offset) return false;
        item.rev = patch.rev;
        item.stable_length = patch.offset + patch.html.length;
        item.appended = { html: (item.appended?.html ?? "") + patch.html, tail: patch.tail };
        if (!changes.items.has(patch.id)) {
          const before = changes.appended.get(patch.id)?.html ?? "";
          changes.appended.set(patch.id, { html: before + patch.html, tail: patch.tail });
        }
        return true;
      }
      case "removed":
        if (this.items.delete(patch.id)) changes.removed.add(patch.id);
        changes.items.delete(patch.id);
        changes.appended.delete(patch.id);
        return true;
      case "turn": {
        const known = this.turns.get(patch.turn.number);
        if (known && known.rev >= patch.turn.rev) return true;
        this.turns.set(patch.turn.number, patch.turn);
        changes.turns.add(patch.turn.number);
        return true;
      }
      case "head":
        this.head = patch.head;
        break;
      case "status":
        this.status = patch.status;
        break;
      case "queue":
        this.queue = patch.queue;
        break;
      case "requests":
        this.requests = patch.requests;
        break;
      case "todos":
        this.todos = patch.todos;
        break;
      case "usage":
        this.usage = patch.usage;
        break;
      default:
        // A newer server may send patches that this page does not know, for parts it does not show.
        return true;
    }
    changes.parts.add(patch.patch);
    return true;
  }
}

/**
 * Compares two positions.
 *
 * @param {Item["position"]} a
 * @param {Item["position"]} b
 */
export function comparePositions(a, b) {
  return a[0] - b[0] || a[1] - b[1];
}

/**
 * Keeps the older items that were loaded, if they connect to a newer snapshot without a gap.
 *
 * @param {Conversation} before
 * @param {Conversation} after
 */
export function keepOlder(before, after) {
  if (!after.more || ![...after.items.keys()].some((id) => before.items.has(id))) return;
  const first = Math.min(...[...after.items.values()].map((item) => item.position[0]));
  for (const [id, item] of before.items)
    if (!after.items.has(id) && item.position[0] < first && !item.open) after.items.set(id, item);
  for (const [number, turn] of before.turns)
    if (!after.turns.has(number)) after.turns.set(number, turn);
  after.more = before.more;
}
