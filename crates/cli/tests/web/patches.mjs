// The page's own fold of patches, without a browser: what comes twice or late changes nothing, what
// does not fit asks for the whole.
import assert from "node:assert/strict";
import { copyFileSync } from "node:fs";
import { join } from "node:path";

const copy = new URL("conversation.copy.mjs", import.meta.url);
copyFileSync(join(process.env.PAGES, "js/conversation/conversation.js"), copy);
const { comparePositions, Conversation, keepOlder } = await import(copy);

const item = (id, position, rev, more = {}) => ({ id, position, rev, first: position[0], turn: 1, kind: "text", html: `<div class="item">${id}</div>`, ...more });
const snapshot = (items, more = {}) => ({ frame: "snapshot", revision: 10, session: {}, head: {}, status: { phase: { kind: "idle" } }, queue: [], requests: [], todos: [], usage: {}, turns: [], items, more: false, ...more });
const state = (it) => JSON.stringify([it.revision, [...it.items], [...it.turns], it.queue]);

const one = new Conversation(snapshot([item("a", [1, 0], 5), item("b", [2, 0], 9, { open: true, stable_length: 3 })]));
const append = { from: 10, to: 12, patches: [{ patch: "append", id: "b", rev: 12, offset: 3, html: "<p>x</p>", tail: "<p>y" }] };
assert.deepEqual([...one.apply(append).appended], [["b", { html: "<p>x</p>", tail: "<p>y" }]]);
const after = state(one);
assert.equal(one.apply(append).appended.size, 0, "twice");
assert.equal(state(one), after);
assert.equal(one.apply({ from: 3, to: 8, patches: [{ patch: "item", item: item("a", [1, 0], 4) }] }).items.size, 0, "late");
assert.equal(state(one), after);
assert.equal(one.apply({ from: 13, to: 14, patches: [] }), undefined, "a gap");
assert.equal(one.apply({ from: 12, to: 14, patches: [{ patch: "append", id: "b", rev: 14, offset: 99, html: "", tail: "" }] }), undefined, "elsewhere than it ends");
assert.equal(one.apply({ from: 12, to: 14, patches: [{ patch: "append", id: "unknown", rev: 14, offset: 0, html: "", tail: "" }] }), undefined, "of nothing");
// An update over a stretch that is partly known: what is known is left alone, the rest counts.
const wide = one.apply({ from: 9, to: 15, patches: [{ patch: "item", item: item("a", [1, 0], 5, { html: "no" }) }, { patch: "item", item: item("b", [2, 0], 15) }, { patch: "removed", id: "unknown" }, { patch: "queue", queue: [{ id: "q" }] }] });
assert.deepEqual([...wide.items], ["b"]);
assert.deepEqual([...wide.parts], ["queue"]);
assert.equal(one.items.get("a").html.includes("no"), false);
assert.equal(one.apply({ from: 15, to: 16, patches: [{ patch: "news from later", what: 1 }] }).items.size, 0, "unknown patches are left alone");

assert.ok(comparePositions([2, 0], [10, 0]) < 0 && comparePositions([2, 1], [2, 0]) > 0);
const newer = new Conversation(snapshot([item("b", [2, 0], 20)], { more: true, revision: 20 }));
keepOlder(one, newer);
assert.deepEqual([...newer.items.keys()].sort(), ["a", "b"], "older pages that join on stay");
const far = new Conversation(snapshot([item("z", [90, 0], 95)], { more: true, revision: 95 }));
keepOlder(one, far);
assert.deepEqual([...far.items.keys()], ["z"], "those behind a hole do not");
const page = newer.prepend({ items: [item("0", [0, 0], 1), item("b", [2, 0], 1)], turns: [], more: false });
assert.deepEqual([...page.items], ["0"]);
assert.equal(newer.first, "0.0");
const many = new Conversation(snapshot(Array.from({ length: 30 }, (_, n) => item(`i${n}`, [n, 0], n, { turn: 1 + Math.floor(n / 10) })), { turns: [1, 2, 3].map((number) => ({ number, rev: 1 })) }));
const removed = many.trim(15);
assert.equal(many.items.size, 10, "whole turns go");
assert.deepEqual([[...removed.turns], removed.removed.size, many.more, many.first], [[1, 2], 20, true, "20.0"]);
assert.equal(many.trim(5).removed.size, 0, "the last turn stays");
console.log("✓ patches");
