// Terminals with little, ordinary and very much on their screens.
const line = (number, ...runs) => ({ number, runs: runs.map((it) => (typeof it === "string" ? { text: it } : it)) });
const screen = (more = {}) => ({ columns: 80, rows: 24, top: 0, oldest: 0, cursor: { row: 1, column: 9, shape: "block" }, title: "", alternate: false, application_cursor: false, bracketed_paste: true, mouse: "none", ...more });
const terminal = (number, more = {}) => ({ number, title: "", started: 1, ...more });
const WORD = "x".repeat(300);

const prompt = [line(0, "Welcome"), line(1, { text: "me@box", foreground: 2, attributes: ["bold"] }, ":", { text: "~/shop", foreground: 4 }, "$ ")];
/** Every colour and attribute, as text and as a background. */
const colours = [
  ...Array.from({ length: 16 }, (_, n) => line(n, { text: `colour ${n} `, foreground: n }, { text: "bold ", foreground: n, attributes: ["bold"] }, { text: " on it ", background: n }, { text: " both ", foreground: (n + 5) % 16, background: n }, { text: " inverse ", foreground: n, attributes: ["inverse"] })),
  line(16, { text: "fixed", foreground: "#000000", background: "#ffd75f" }, { text: "on fixed", background: "#005f87" }, { text: "inverse", attributes: ["inverse"] }, { text: "italic", attributes: ["italic", "underline"] }, { text: "struck", attributes: ["strikeout", "underline"] }),
  line(17, "│ ", { text: "世", cells: 2 }, { text: "界", cells: 2 }, { text: "─".repeat(60), cells: 60 }),
  ...Array.from({ length: 6 }, (_, n) => line(18 + n, `${"~".repeat(78)}${n}`)),
];
const long = (from, count) => Array.from({ length: count }, (_, n) => line(from + n, `${String(from + n).padStart(5)} ${"a line of a program that was started on a wide screen ".repeat(4)}`.slice(0, 200)));
const WIDE = { columns: 200, rows: 60, top: 4000, oldest: 0, cursor: { row: 59, column: 199, shape: "beam" } };

const view = (name, { back }, { terminals = [terminal(1)], frames, scrollback, replies = {}, then, until = ".terminal-line" }) => ({
  name,
  replies: { "GET /terminals": { terminals }, ...replies },
  open: async (page, stubbed) => {
    stubbed.terminal = { frames: [{ frame: "terminals", terminals }, ...frames], scrollback };
    await page.evaluate(() => (location.hash = `${location.hash}/terminal/1`));
    await page.waitForSelector(until);
    await then?.(page);
  },
  close: back,
});

/** The views, made with the functions of `layout-views.mjs`. */
export const terminalViews = (parts) => [
  view("terminal, a prompt", parts, { frames: [{ frame: "screen", screen: screen(), lines: prompt }] }),
  view("terminal, a program that uses the whole screen", parts, { frames: [{ frame: "screen", screen: screen({ alternate: true, title: "vim" }), lines: colours }], terminals: [terminal(1, { title: "vim main.rs" }), terminal(2)] }),
  view("terminal, 200 columns and a long scrollback", parts, {
    frames: [{ frame: "screen", screen: screen(WIDE), lines: long(4000, 60) }],
    scrollback: (from, count) => ({ frame: "scrollback", oldest: 0, top: 4000, lines: long(from, count) }),
    then: async (page) => {
      await page.evaluate(() => (document.querySelector(".terminal-scroller").scrollTop = 20_000));
      await page.waitForFunction(() => document.querySelector(".terminal-line")?.textContent.startsWith(" 1"));
    },
  }),
  view("terminal, ended", parts, { terminals: [terminal(1, { ended: { code: 1 } })], frames: [{ frame: "screen", screen: screen(), lines: prompt }, { frame: "closed", exit: { code: 1 } }], until: ".terminal-message .button" }),
  view("terminal, five with long titles", parts, { terminals: [1, 2, 3, 4, 5].map((number) => terminal(number, { title: WORD, ended: number === 4 ? { signal: "Killed" } : undefined })), frames: [{ frame: "screen", screen: screen({ title: WORD }), lines: prompt }] }),
  view("terminal, cannot be started", parts, { terminals: [], frames: [], replies: { "POST /terminals": { status: 409, type: "x#shell-not-started", title: "no", detail: `the directory ${WORD} does not exist` } }, until: ".terminal-message .button" }),
];
