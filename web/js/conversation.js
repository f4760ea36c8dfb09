/**
 * The newest part of a session as the server told it, and what to do when it tells more.
 *
 * Nothing here touches the page. Every patch carries whole values or says where it begins, so one
 * that comes twice or late changes nothing; one that does not fit means that something was missed,
 * and the server is asked for the whole.
 *
 * @module
 */

/** @typedef {import("./gateway.js").Item} Item */
/** @typedef {import("./gateway.js").Turn} Turn */
/** @typedef {import("./gateway.js").Patch} Patch */
/** @typedef {import("./gateway.js").Snapshot} Snapshot */
/** @typedef {import("./gateway.js").Page} Page */
/** @typedef {"head" | "status" | "queue" | "requests" | "todos" | "usage"} Part */

/** What changed, for those who show it. */
export class Changes {
  constructor() {
    /** @type {Set<string>} */ this.items = new Set();
    /** @type {Map<string, { settled: string, open: string }>} */ this.grown = new Map();
    /** @type {Set<string>} */ this.gone = new Set();
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

  /** Whether a turn is under way. */
  get busy() {
    return !["idle", "gone"].includes(this.status.phase.is);
  }

  /**
   * Brings it forward. Nothing where the update does not fit.
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
   * Puts older items in front.
   *
   * @param {Page} page
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
   * Lets go of the oldest turns, so that a page that is left open for days stays quick. Whoever
   * scrolls up is given them again. A turn goes whole or not at all, since calls hold what their
   * sub-agents did.
   *
   * @param {number} most items that are left at most, unless the last turn alone has more
   */
  trim(most) {
    const changes = new Changes();
    /** @type {Map<number, string[]>} */ const turns = new Map();
    for (const item of this.items.values()) turns.set(item.turn, [...(turns.get(item.turn) ?? []), item.id]);
    const oldest = [...turns.keys()].sort((a, b) => a - b).slice(0, -1);
    for (const number of oldest) {
      if (this.items.size <= most) break;
      for (const id of turns.get(number) ?? []) {
        this.items.delete(id);
        changes.gone.add(id);
      }
      this.turns.delete(number);
      changes.turns.add(number);
      this.more = true;
    }
    return changes;
  }

  /** The place of the first item, as older pages are asked for. */
  get first() {
    let first = /** @type {import("./gateway.js").Place | undefined} */ (undefined);
    for (const { place } of this.items.values()) if (!first || compare(place, first) < 0) first = place;
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
        changes.grown.delete(item.id);
        changes.gone.delete(item.id);
        return true;
      }
      case "grow": {
        const item = this.items.get(patch.id);
        if (!item) return false;
        if (item.rev >= patch.rev) return true;
        if ((item.settled ?? 0) !== patch.at) return false;
        item.rev = patch.rev;
        item.settled = patch.at + patch.settled.length;
        item.grown = { settled: (item.grown?.settled ?? "") + patch.settled, open: patch.open };
        if (!changes.items.has(patch.id)) {
          const before = changes.grown.get(patch.id)?.settled ?? "";
          changes.grown.set(patch.id, { settled: before + patch.settled, open: patch.open });
        }
        return true;
      }
      case "gone":
        if (this.items.delete(patch.id)) changes.gone.add(patch.id);
        changes.items.delete(patch.id);
        changes.grown.delete(patch.id);
        return true;
      case "turn": {
        const known = this.turns.get(patch.turn.number);
        if (known && known.rev >= patch.turn.rev) return true;
        this.turns.set(patch.turn.number, patch.turn);
        changes.turns.add(patch.turn.number);
        return true;
      }
      case "head": this.head = patch.head; break;
      case "status": this.status = patch.status; break;
      case "queue": this.queue = patch.queue; break;
      case "requests": this.requests = patch.requests; break;
      case "todos": this.todos = patch.todos; break;
      case "usage": this.usage = patch.usage; break;
      default:
        // A later server may know patches that this page does not; they are about things it does not show.
        return true;
    }
    changes.parts.add(patch.patch);
    return true;
  }
}

/**
 * The order of two places.
 *
 * @param {import("./gateway.js").Place} a
 * @param {import("./gateway.js").Place} b
 */
export function compare(a, b) {
  return a[0] - b[0] || a[1] - b[1];
}

/**
 * Keeps the items of older pages, as far as they join on to a newer snapshot without a hole.
 *
 * @param {Conversation} before
 * @param {Conversation} after
 */
export function keepOlder(before, after) {
  if (!after.more || ![...after.items.keys()].some((id) => before.items.has(id))) return;
  const first = Math.min(...[...after.items.values()].map((item) => item.place[0]));
  for (const [id, item] of before.items) if (!after.items.has(id) && item.place[0] < first && !item.open) after.items.set(id, item);
  for (const [number, turn] of before.turns) if (!after.turns.has(number)) after.turns.set(number, turn);
  after.more = before.more;
}
