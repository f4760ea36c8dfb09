// The views of `layout.mjs` that are about sessions of the CLI and the search in all sessions, each with
// little, ordinary and very much content.
import { item, transcript, transcriptPages } from "./stub-api.mjs";

const WORD = "x".repeat(2000);
const COUNT = { tiny: 1, typical: 12, huge: 1000 };
const text = (size, words) => (size === "huge" ? WORD : words);
const many = (size) =>
  Array.from({ length: COUNT[size] }, (_, n) =>
    transcript(n, { title: `${text(size, "Fix the cart")} ${n}`, cwd: `/home/me/${text(size, "project")}-${n % 3}`, branch: text(size, "feature/cart"), in_terminal: n % 4 === 1, cost: size === "tiny" ? null : 123.456, size: 10 ** (n % 10) }));
const results = (size) => ({
  results: Array.from({ length: Math.min(30, COUNT[size]) }, (_, n) => ({
    session: `66666666-6666-4666-8666-${String(n >> 1).padStart(12, "0")}`, title: `${text(size, "Fix the cart")} ${n >> 1}`, cwd: `/home/me/${text(size, "shop")}`, at: 1, role: ["user", "assistant", "tool"][n % 3], position: `${n}.0`,
    snippet: [{ text: text(size, "where the goods are counted, and the "), match: false }, { text: text(size, "cart"), match: true }, { text: " is emptied afterwards", match: false }],
  })),
  more: size === "tiny" ? null : "next",
  indexing: size === "huge" ? { done: 120, total: 5000 } : null,
});
const lists = (size) => ({ "GET /transcripts": transcriptPages(many(size)), "GET /search": results(size) });
const FAILED = { status: 503, type: "x#failed", title: "failed", detail: `The index cannot be read: ${WORD}` };

/** A view with the drawer open on small screens. */
const inList = (name, drawer, more) => ({
  name, ...more,
  open: async (page) => { await drawer.open(page); await more.open(page); },
  close: async (page) => { await more.close(page); await drawer.close(page); },
});
const openOthers = async (page) => {
  await page.evaluate(() => document.querySelector("button.tier[aria-expanded=false]")?.click());
  await page.waitForSelector(".project-row, .sidebar-none");
  await page.evaluate(() => document.querySelector(".project-row[aria-expanded=false]")?.click());
  await page.waitForSelector(".other-row, .sidebar-none");
};
const closeOthers = (page) => page.evaluate(() => document.querySelector("button.tier[aria-expanded=true]")?.click());
const search = (selector, words = "cart") => async (page) => {
  await page.evaluate((words) => {
    const field = document.querySelector(".sidebar-search input");
    field.focus();
    field.value = words;
    field.dispatchEvent(new Event("input"));
  }, words);
  await page.waitForSelector(selector);
};
const leave = (page) =>
  page.evaluate(() => {
    const field = document.querySelector(".sidebar-search input");
    field.value = "";
    field.dispatchEvent(new Event("input"));
    field.blur();
  });

const show = (n, words) => item(`<div class="item text"><p>${words} ${n}</p></div>`, { id: `line-${n}`, position: [n, 0] });
const page = (size, about = {}) => {
  const one = { ...many(size)[0], ...about };
  const items = Array.from({ length: size === "tiny" ? 1 : 40 }, (_, n) => show(n + 1, text(size, "A line of what was said")));
  return { id: one.id, reply: { transcript: one, page: { items, turns: [], more: false } } };
};
const transcriptView = (name, size, back, about = {}, more = {}) => {
  const { id, reply } = page(size, about);
  return {
    name, replies: { [`GET /transcripts/${id}`]: reply }, ...more,
    open: async (page) => {
      await page.evaluate((id) => (location.hash = `#/t/${id}`), id);
      await page.waitForSelector(".continue:not([hidden]), .empty:not([hidden]) h2");
      await more.then?.(page);
    },
    close: back,
  };
};
const refuse = async (page) => {
  await page.evaluate(() => document.querySelector(".continue .button").click());
  await page.waitForSelector(".continue-error:not([hidden])");
};

/** The views, made with the functions of `layout-views.mjs`. */
export function sessionViews({ drawer, back }) {
  const sizes = Object.keys(COUNT);
  return [
    ...sizes.map((size) => inList(`other sessions, ${size}`, drawer, { fresh: true, replies: lists(size), open: openOthers, close: closeOthers })),
    inList("other sessions, none", drawer, { fresh: true, open: openOthers, close: closeOthers }),
    inList("other sessions, unreadable", drawer, { fresh: true, replies: { "GET /transcripts": FAILED }, open: openOthers, close: closeOthers }),
    ...sizes.map((size) => inList(`search in all sessions, ${size}`, drawer, { replies: lists(size), open: search(".found-text"), close: leave })),
    inList("search in all sessions, nothing", drawer, { open: search(".found-status:not(:empty)", "nothing like it"), close: leave }),
    inList("search in all sessions, failed", drawer, { replies: { "GET /search": FAILED }, open: search(".found-retry:not([hidden])"), close: leave }),
    ...sizes.map((size) => transcriptView(`transcript, ${size}`, size, back)),
    transcriptView("transcript in a terminal, huge", "huge", back, { in_terminal: true }),
    transcriptView("transcript that is continued here", "typical", back, { session: "66666666-6666-4666-8666-666666666666" }),
    transcriptView("transcript that could not be continued", "typical", back, {}, { replies: { [`GET /transcripts/${page("typical").id}`]: page("typical").reply, "POST /sessions": FAILED }, then: refuse }),
    transcriptView("transcript that is gone", "typical", back, {}, { replies: { [`GET /transcripts/${page("typical").id}`]: { ...FAILED, status: 404 } } }),
  ];
}
