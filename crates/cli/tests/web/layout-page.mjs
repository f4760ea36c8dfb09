// Views of `layout.mjs`: the composer while a turn runs, a held queue, answers that are missing.
import { callHtml, codeHtml, item, request, session } from "./stub-api.mjs";

const WORKING = { phase: { kind: "working" }, since: 0, turn_since: Date.now() - 90_000 };
const waiting = () => [session({ tier: "needs_you", status: "waiting", requests: 1 })];
const lines = (count) => Array.from({ length: count }, (_, n) => `A line of a message that is as long as most lines of messages are ${n + 1}`).join("\n");
const WORD = "x".repeat(5000);
const TEXTS = { tiny: "Go", typical: lines(3), "800 lines": lines(800), "one long word": WORD };
const queued = (count, text) => Array.from({ length: count }, (_, n) => ({ id: `queued-${n}`, text: `${text} ${n}`, delivery: "queue", state: "queued", images: 0 }));

const options = (count) => Array.from({ length: count }, (_, n) => ({ label: `Option number ${n + 1}`, description: "A description of this choice, with the trade-offs: it is fast, but needs a migration." }));
const ask = (more) => () => ({ requests: [request({ kind: "question", tool: "AskUserQuestion", action: "ask", input: JSON.stringify({ questions: [{ question: "Which ones?", header: "Ones", multiSelect: true, options: options(4), ...more }] }) })] });
const edit = (target) => {
  const asked = request({ tool: "Write", action: "write", target, disclosures: [{ label: "File", text: target }], html: callHtml({ target, body: codeHtml("one") }), rules: [{ id: "exact", label: `Edit ${target}, whatever the change`, tool: "edits", pattern: target }, { id: "directory", label: "Edit any file in /home/me/shop", tool: "edits", pattern: "/home/me/shop/**" }] });
  const call = { action: "write", state: "waiting", target, tool: "Write", images: 0, request: asked.id };
  return { requests: [asked], items: [item(callHtml({ target, body: codeHtml("one") }), { kind: "call", call })] };
};
const failed = (text) => item(`<div class="item note error"><details open><summary>The agent exited with code 1<span class="first">${text}</span></summary><pre class="output">${text}</pre></details></div>`, { kind: "agent" });

/** @param {{ write: (selector: string, text: string) => (page: any) => Promise<void>, press: (selector: string) => (page: any) => Promise<void> }} tools */
export function pageViews({ write, press }) {
  const type = (text) => write(".composer textarea", text);
  const message = Object.entries(TEXTS).map(([size, text]) => ({ name: `a message while a turn runs, ${size}`, content: () => ({ status: WORKING }), open: type(text), close: type("") }));
  return [
    ...message,
    { name: "an empty message while a turn runs", content: () => ({ status: WORKING }) },
    {
      name: "a message while a turn runs, with a request", content: () => ({ ...edit("/home/me/shop/a.txt"), status: { ...WORKING, phase: { kind: "waiting", requests: 1 } } }), sessions: waiting,
      open: type(TEXTS.typical), close: type(""),
    },
    { name: "a message is queued by choice", content: () => ({ status: WORKING }), open: press("[data-delivery=queue]"), close: press("[data-delivery=steer]") },
    ...[1, 40].map((count) => ({ name: `held queue of ${count}`, content: () => ({ queue: queued(count, count > 1 ? WORD : "then run the tests"), status: { phase: { kind: "idle" }, since: 0, queue_held: true } }) })),
    ...[[5.02, 5], [999_999.99, 1_000_000]].map(([spent, limit], n) => ({
      name: `spent budget, ${n ? "huge" : "typical"}`,
      content: () => ({ queue: queued(n ? 40 : 1, n ? WORD : "then run the tests"), status: { phase: { kind: "idle" }, since: 0, queue_held: true, budget: { spent, limit, of_day: n === 1, question: `$${spent.toFixed(2)} of ${n ? "the day's " : ""}$${limit.toFixed(2)} spent. Go on?` } } }),
    })),
    ...[0, 1].map((huge) => ({
      name: `sign-in, ${huge ? "huge" : "typical"}`,
      content: () => ({
        queue: queued(huge ? 40 : 1, huge ? WORD : "then run the tests"),
        status: {
          phase: { kind: "stopped", cause: { cause: "not_started", message: "someone has to sign in" } }, since: 0, queue_held: false, schedules: 0,
          sign_in: { text: `Codex needs you to sign in: run ${huge ? WORD.repeat(20) : "`codex login`"}. Then try again.`, methods: Array(huge ? 30 : 2).fill(huge ? WORD : "Use an API key") },
        },
      }),
    })),
    { name: "held queue with a request", content: () => ({ ...edit("/home/me/shop/a.txt"), queue: queued(3, "then run the tests"), status: { phase: { kind: "waiting", requests: 1 }, since: 0, queue_held: true } }), sessions: waiting },
    { name: "question without an answer", content: ask(), sessions: waiting, open: press(".request-actions .primary") },
    { name: "question of 40 options without an answer", content: ask({ options: options(40), question: lines(40) }), sessions: waiting, open: press(".request-actions .primary") },
    { name: "question with several chosen", content: ask(), sessions: waiting, open: async (page) => { await press(".choice")(page); await write(".request-reason input", "and something else")(page); } },
    { name: "question with one answer of its own", content: ask({ multiSelect: false }), sessions: waiting, open: write(".request-reason input", WORD) },
    ...["/home/me/shop/a.txt", `/home/me/shop/${WORD.slice(0, 400)}`].map((target, n) => ({ name: `request as one line, ${n ? "one long word" : "typical"}`, content: () => edit(target), sessions: waiting })),
    {
      name: "another view while a request waits", content: () => edit("/home/me/shop/a.txt"), sessions: waiting, replies: { "GET /git/status": { top: "/home/me/shop", branch: "main", commit: "0123", ahead: 0, behind: 0, files: [], total: 0, message: "" } },
      open: async (page) => { await page.evaluate(() => (location.hash = `${location.hash}/git`)); await page.waitForSelector(".views .status-dot"); },
      close: async (page) => { await page.evaluate(() => (location.hash = location.hash.replace("/git", ""))); await page.waitForFunction(() => !document.querySelector(".page.viewing")); },
    },
    ...["its settings cannot be read", WORD].map((text, n) => ({
      name: `an agent that failed four times, ${n ? "one long word" : "typical"}`,
      content: () => ({ items: Array.from({ length: 4 }, () => failed(text)), queue: queued(1, text), status: { phase: { kind: "stopped", cause: { cause: "exited", code: 1, stderr: text } }, since: 0 } }),
      open: (page) => page.waitForSelector(".repeated-count", { state: "attached" }),
    })),
  ];
}
