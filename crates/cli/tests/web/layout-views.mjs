// What `layout.mjs` shows: a view has a name, the content of the conversation, and how it is opened and
// closed. `each` opens it anew for every size; `fresh` loads the page first.
import { pushViews } from "./layout-push.mjs";
import { acpAgentReply, agentReply, agentsReply } from "./stub-options.mjs";
import { gitViews } from "./layout-git.mjs";
import { fileViews } from "./layout-files.mjs";
import { fleetViews } from "./layout-fleet.mjs";
import { optionViews } from "./layout-options.mjs";
import { readingViews } from "./layout-reading.mjs";
import { pageViews } from "./layout-page.mjs";
import { sessionViews } from "./layout-sessions.mjs";
import { terminalViews } from "./layout-terminal.mjs";
import { closeLayers, returnToConversation as back } from "./layout-navigation.mjs";
import { scheduleViews } from "./layout-schedule.mjs";
import { callHtml, CODEX, codeHtml, diffHtml, item, MODES, request, session } from "./stub-api.mjs";

const lines = (count, words = "export const value = compute(previous, next); // a line of a file") => Array.from({ length: count }, (_, n) => `${words} ${n + 1}`).join("\n");
const WORD = "x".repeat(5000);
/** How much there is to show. */
const SIZES = { tiny: "ls", typical: lines(4), "40 lines": lines(40), "800 lines": lines(800), "one long word": WORD };
const RULES = [
  { id: "exact", label: "Run exactly this command", tool: "Bash", pattern: "ls" },
  { id: "directory", label: "Edit files below /home/me/shop/src/a/rather/long/path/to/a/directory", tool: "edits", pattern: "/home/me/shop" },
  { id: "tool", label: "Every call of this tool", tool: "Bash" },
];
const waiting = () => [session({ tier: "needs_you", status: "waiting", requests: 1 })];

/** @param {string} text */
const permissions = (text) => ({
  Bash: { tool: "Bash", action: "run", description: "Run the tests", disclosures: [{ label: "Command", text }], rules: RULES },
  "Bash without a rule": { tool: "Bash", action: "run", description: text.slice(0, 5000), disclosures: [{ label: "Command", text }, { label: "Input", text: JSON.stringify({ command: text }) }] },
  Write: { tool: "Write", action: "write", target: `/home/me/shop/${text.slice(0, 200).replaceAll("\n", " ")}.ts`, disclosures: [{ label: "File", text: "/home/me/shop/src/cart.ts" }], html: callHtml({ body: codeHtml(text) }), rules: RULES.slice(1, 2) },
  Edit: { tool: "Edit", action: "edit", target: "/home/me/shop/src/cart.ts", disclosures: [{ label: "File", text: "/home/me/shop/src/cart.ts" }], html: callHtml({ verb: "Edit", body: diffHtml(text) }), rules: RULES.slice(1), reason: "The path is outside of the working directory" },
  MCP: { tool: "mcp__issues__create_issue_with_a_long_name", action: "other", disclosures: [{ label: "Input", text: JSON.stringify({ body: text }, null, 2) }], rules: RULES.slice(2) },
  "an unknown tool": { tool: "", action: "other", disclosures: [{ label: "Input", text }] },
});

/** Writes into a field at once: typing 800 lines takes a browser seconds. */
const write = (selector, text) => (page) =>
  page.locator(selector).evaluate((field, text) => {
    field.value = text;
    field.dispatchEvent(new Event("input"));
  }, text);
const press = (selector) => (page) => page.locator(selector).first().evaluate((it) => it.click());
/** *Allow* needs everything to have been seen. */
const seeAll = (page) => page.evaluate(() => document.querySelector(".show-all:not([hidden])")?.click());
const openRules = async (page) => {
  // Whether a button shows the rest is known only once the browser has laid out the card.
  await page.waitForFunction(() => {
    document.querySelector(".show-all:not([hidden])")?.click();
    return [...document.querySelectorAll(".request-actions .button")].some((it) => it.textContent.startsWith("Always") && !it.disabled);
  });
  await page.evaluate(() => [...document.querySelectorAll(".request-actions .button")].find((it) => it.textContent.startsWith("Always")).click());
  await page.waitForSelector(".request-rules:not([hidden])");
};
const openReason = async (page) => {
  await page.evaluate(() => [...document.querySelectorAll(".request-actions .button")].find((it) => /^Deny with reason|^Keep planning/.test(it.textContent)).click());
  await page.waitForSelector(".request-reason:not([hidden])");
};

/** Kinds that are also shown with ordinary and with very many lines. */
const THOROUGH = ["Write", "Edit"];
const cards = Object.entries(SIZES).flatMap(([size, text]) => {
  const every = ["tiny", "40 lines", "one long word"].includes(size);
  const kinds = Object.entries(permissions(text)).filter(([name]) => every || THOROUGH.includes(name));
  const { Bash, Edit, Write } = permissions(text);
  const unknown = { kind: "unknown", tool: "open_portal", action: "other", input: JSON.stringify({ text }), disclosures: [{ label: "Input", text: JSON.stringify({ text }) }] };
  const states = every
    ? [
        { name: `permission, all shown, ${size}`, content: () => ({ requests: [request(Edit)] }), open: seeAll },
        { name: `permission, rules open, ${size}`, content: () => ({ requests: [request(Bash)] }), open: openRules },
        { name: `permission, reason open, ${size}`, content: () => ({ requests: [request(Write)] }), open: openReason },
        { name: `unknown request, ${size}`, content: () => ({ requests: [request(unknown)] }) },
      ]
    : [];
  return [...kinds.map(([name, more]) => ({ name: `permission for ${name}, ${size}`, content: () => ({ requests: [request(more)] }) })), ...states].map((view) => ({ ...view, sessions: waiting }));
});

/** Cards with choices of the agent's own: few, many, with short and with very long names. */
const KINDS_OF_CHOICES = ["allow_once", "allow_always", "reject_once", "reject_always"];
const choices = (count, name) => Array.from({ length: count }, (_, n) => ({ id: `option-${n}`, name: name(n), kind: KINDS_OF_CHOICES[n % 4] }));
const NAMES = {
  "short names": (n) => ["Yes", "Always", "No", "Never"][n % 4],
  "long names": (n) => `Yes, and do not ask again for commands that start with \`cargo test --workspace\` in /home/me/shop/src (${n})`,
  "one long word": () => WORD.slice(0, 400),
};
const withAgent = () => [session({ tier: "needs_you", status: "waiting", requests: 1, agent: CODEX })];
const choiceCards = Object.entries(NAMES).flatMap(([names, name]) =>
  [2, 4, 8].flatMap((count) =>
    ["tiny", "40 lines"].flatMap((size) => {
      const { Bash, Edit } = permissions(SIZES[size]);
      const content = (more) => () => ({ requests: [request({ ...more, rules: [], choices: choices(count, name) })] });
      const title = `${count} choices, ${names}, ${size}`;
      return [
        { name: `command with ${title}`, content: content(Bash), sessions: withAgent },
        ...(size === "tiny" ? [] : [{ name: `edit with ${title}, all shown`, content: content(Edit), sessions: withAgent, open: seeAll }]),
      ];
    }),
  ),
);

const question = (more) => ({ question: "Which database should the service use for the order history, given that it must be queried by customer and by day?", header: "Database", multiSelect: false, options: options(4), ...more });
const options = (count, description = "A description of this choice that is as long as those that Claude usually writes, with the trade-offs: it is fast and cheap, but needs a migration.") =>
  Array.from({ length: count }, (_, n) => ({ label: `Option number ${n + 1}`, description }));
const ask = (...questions) => () => ({ requests: [request({ kind: "question", tool: "AskUserQuestion", action: "ask", input: JSON.stringify({ questions }) })] });
const questions = Object.entries({
  "question, tiny": ask(question({ question: "Go?", options: options(2, "") })),
  "question, typical": ask(question()),
  "question with several answers": ask(question({ multiSelect: true })),
  "question with 40 options": ask(question({ options: options(40) })),
  "question of 800 lines": ask(question({ question: lines(800) })),
  "question of one long word": ask(question({ question: WORD, header: WORD, options: [{ label: WORD, description: WORD }, ...options(1)] })),
  "several questions": ask(question(), question({ header: "Luggage", multiSelect: true }), question({ header: "Way" }), question({ header: "A header that is longer than it should be" })),
  "forty questions": ask(...Array.from({ length: 40 }, (_, n) => question({ header: `Question ${n + 1}` }))),
  "question that cannot be shown": ask(),
}).map(([name, content]) => ({ name, content, sessions: waiting }));
questions.push({ name: "question with an own answer", content: ask(question()), sessions: waiting, open: write(".request-reason input", WORD) });

const step = (n) => `<h3>Step ${n}</h3><p>Change <code>src/part${n}.ts</code> so that it does the right thing, then run the tests and look at what comes of it.</p><ul><li>first look at the callers</li><li>then change the signature</li></ul>`;
const plan = (html) => () => ({ requests: [request({ kind: "plan", tool: "ExitPlanMode", action: "plan", modes: MODES.slice(0, 2).reverse(), html: callHtml({ look: "ask", verb: "Plan", body: html }) })] });
const many = (count, make) => Array.from({ length: count }, (_, n) => make(n + 1)).join("");
const plans = Object.entries({ tiny: "<p>Do it.</p>", typical: many(8, step), "800 lines": many(160, step), "one long word": `<h1>${WORD}</h1><p>${WORD}</p>` }).flatMap(([size, html]) => [
  { name: `plan, ${size}`, content: plan(html), sessions: waiting },
  { name: `plan, reason open, ${size}`, content: plan(html), open: openReason, sessions: waiting },
]);

const queued = (count, text) => Array.from({ length: count }, (_, n) => ({ id: `queued-${n}`, text: `${text} ${n}`, delivery: n === 1 ? "steer" : "queue", state: n === 0 ? "written" : "queued", images: n % 2 }));
const todos = (count, text = "Look at the callers") => Array.from({ length: count }, (_, n) => ({ text: `${text} ${n}`, doing: `Looking at ${text} ${n}`, state: n === 0 ? "done" : n === 1 ? "doing" : "pending" }));
const WORKING = { phase: { kind: "running", tool: "Bash", target: `npm test ${"-- --watch ".repeat(20)}`, item: "x", others: 3 }, since: 0, turn_since: Date.now() - 90_000 };
const openTodos = (page) => page.evaluate(() => document.querySelector(".todo-strip")?.setAttribute("open", ""));
const FILES = ["src/cart.ts", "src/a/very/long/path/that/does/not/fit/anywhere/on/a/phone/cart.ts", WORD.slice(0, 300)].map((path) => ({ path: `/home/me/shop/${path}`, edits: 2 }));

const conversation = (text) => ({
  items: [
    item(`<div class="item prompt"><div class="words">${text}</div></div>`, { kind: "prompt", prompt: { id: "p1", author: "user", text, images: 0, state: "done" } }),
    item(`<div class="item prompt"><div class="words">Again</div></div>`, { kind: "prompt", prompt: { id: "p2", author: "user", text: "Again", images: 0, state: "indeterminate", by: { name: "phone", via: "browser" } } }),
    item(`<div class="item thinking"><details><summary>Thought · about 39 tokens<span class="first">${text}</span></summary><div class="words">${text}</div></details></div>`, { kind: "thinking" }),
    item(`<div class="item text"><h1>Heading</h1><p>A paragraph with <strong>bold</strong>, <code>${text}</code> and <a href="https://example.com">a link</a>. ${text}</p><ol><li>First</li></ol><div class="table"><table><tr><th>Column A</th><th class="right">Column B</th><th class="center">Column C with a long title</th><th>D</th></tr><tr><td>a long cell value</td><td class="right">1,234.00</td><td class="center">centred</td><td>x</td></tr></table></div>${codeHtml(text)}<blockquote><p>Quoted</p></blockquote></div>`),
    item(callHtml({ verb: "Edit", state: "done", target: text, body: diffHtml(lines(3)) }), { kind: "call", call: { action: "edit", state: "done", target: "/home/me/shop/src/cart.ts", tool: "Edit", images: 0 } }),
    item(callHtml({ look: "run", verb: "Run", state: "failed", target: text, body: `<pre class="output">${text}</pre>` }), { kind: "call", truncated: true, call: { action: "run", state: "failed", target: text, tool: "Bash", images: 0 } }),
    item(callHtml({ look: "edit", verb: "Write", state: "waiting", target: text, body: codeHtml(lines(3)) }), { kind: "call", call: { action: "write", state: "waiting", target: text, tool: "Write", images: 0, request: "request-x" } }),
    ...[1, 2, 3].map((n) => item(callHtml({ look: "look", verb: "Read", state: "done", target: `${text} ${n}`, body: "" }), { kind: "call", call: { action: "read", state: "done", target: text, tool: "Read", images: 0 } })),
    item(`<div class="item note error"><details open><summary>The agent exited with code 1<span class="first">${text}</span></summary><pre class="output">${text}</pre></details></div>`, { kind: "failure" }),
  ],
  turns: [{ number: 1, first: 1, rev: 1, files: FILES, prompts: [], rewound: false, end: { ending: "completed" }, tokens: {}, html: `<div class="end">4 min 31 s<span class="dot"> · </span>17k tokens in, 541 out<span class="dot"> · </span><details class="files" open><summary>3 files changed</summary><ul>${FILES.map((it) => `<li>${it.path}</li>`).join("")}</ul></details></div>` }],
});
const scrollUp = async (page) => {
  await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 60)));
  await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight / 3));
  await page.waitForSelector(".new-pill:not([hidden])");
};
const everything = () => ({ ...conversation("Fix the cart"), requests: [request(permissions(SIZES["40 lines"]).Edit), request(permissions("ls").Bash), request({})], queue: queued(12, "then run the tests"), todos: todos(12), status: WORKING });

const page = [
  { name: "conversation, typical", content: () => conversation("Fix the cart") },
  { name: "conversation, scrolled up", content: () => conversation("Fix the cart"), open: scrollUp, close: (page) => page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight)) },
  { name: "conversation, one long word", content: () => conversation(WORD) },
  { name: "nothing said yet", content: () => ({ head: { suggestion: "Explain this repository to me, please, as you would to a new colleague" } }) },
  { name: "working", content: () => ({ ...conversation("Fix the cart"), status: WORKING, todos: todos(3) }) },
  { name: "queue of 3", content: () => ({ ...conversation("Fix the cart"), status: WORKING, queue: queued(3, "then run the tests") }) },
  { name: "queue of 40 long words", content: () => ({ ...conversation("Fix the cart"), status: WORKING, queue: queued(40, WORD) }) },
  { name: "to-dos", content: () => ({ ...conversation("Fix the cart"), todos: todos(40, WORD.slice(0, 400)) }), open: openTodos },
  { name: "everything at once", content: everything, sessions: waiting, open: openTodos },
  { name: "a draft of 800 lines below a request", content: () => ({ requests: [request(permissions(SIZES["40 lines"]).Bash)] }), sessions: waiting, open: write(".composer textarea", lines(800)), close: write(".composer textarea", "") },
  { name: "a queued message is edited", content: () => ({ status: WORKING, queue: queued(3, "then run the tests") }), open: press(".queued-prompts [aria-label=Edit]"), close: press(".editing .button") },
  { name: "search, with everything", content: everything, sessions: waiting, open: async (page) => { await press(".bar [aria-label^='Find in']")(page); await page.waitForSelector(".search:not([hidden])"); await page.locator(".search input").fill("nothing like this"); await page.waitForFunction(() => document.querySelector(".search output").textContent); }, close: press(".search [aria-label=Close]") },
  { name: "toasts", content: everything, open: (page) => page.evaluate(async (word) => { const { toast } = await import("/js/ui/toast.js"); for (const text of ["ExitPlanMode: allowed by link (browser)", word, "Stopping. 3 prompts still in the queue."]) toast(text); }, WORD), close: (page) => page.evaluate(() => document.querySelectorAll(".toast").forEach((it) => it.remove())) },
  { name: "the agent could not be started", content: () => ({ ...conversation("Fix the cart"), queue: queued(1, "fix the cart").map((it) => ({ ...it, state: "queued" })), status: { phase: { kind: "stopped", cause: { cause: "not_started", message: `no such file: ${WORD.slice(0, 300)}` } } } }) },
  { name: "MCP servers with problems", fresh: true, replies: { "GET /agent": agentReply(12) }, content: () => ({ ...conversation("Fix the cart"), status: WORKING }), open: (page) => page.waitForSelector(".chip-button.problem:not([hidden])") },
  { name: "watch only", role: "watch", content: () => ({ ...conversation("Fix the cart"), requests: [], queue: queued(3, "x") }) },
  { name: "drive again", fresh: true, content: () => conversation("Fix the cart") },
  { name: "commands", content: () => conversation("Fix the cart"), replies: { "POST /wake": { models: [], commands: Array.from({ length: 40 }, (_, n) => ({ name: `command-${n}-${WORD.slice(0, n * 10)}`, description: "Does something that takes a while to explain in words", argument_hint: "" })) } }, open: async (page) => { await page.locator(".composer textarea").fill("/"); await page.waitForSelector(".menu [role=option]"); }, close: (page) => page.locator(".composer textarea").fill("") },
];

const manySessions = (count, title) => () =>
  [session(), ...Array.from({ length: count }, (_, n) => session({ id: `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`, title: `${title} ${n}`, cwd: `/home/me/${title}`, tier: ["needs_you", "running", "idle"][n % 3], status: ["waiting", "running", "failed"][n % 3], requests: n % 3 ? 0 : 12, problem: n % 4 ? null : `its data is damaged: ${title}` }))];
const drawer = { open: (page) => page.evaluate(() => document.querySelector(".sidebar.open") || (document.querySelector(".bar .drawer")?.checkVisibility() && document.querySelector(".bar .drawer").click())), close: (page) => page.evaluate(() => document.querySelector(".scrim:not([hidden])")?.click()) };
const lists = [
  { name: "list of 3 sessions", sessions: manySessions(3, "Fix the cart"), ...drawer },
  { name: "list of 200 sessions", sessions: manySessions(200, "Fix the cart"), ...drawer },
  { name: "list of long words", sessions: manySessions(12, WORD), ...drawer },
];

const dialog = (name, open, more = {}) => ({ name, content: () => conversation("Fix the cart"), ...more, open: async (page, stubbed) => { await open(page, stubbed); await page.waitForSelector("dialog[open]"); await more.then?.(page); }, close: closeLayers });
const menuItem = (name) => async (page) => {
  await press(".bar [aria-label='Session menu']")(page);
  await page.waitForSelector(".popover button");
  await page.evaluate((name) => [...document.querySelectorAll(".popover button")].find((it) => it.textContent.startsWith(name)).click(), name);
};
const settings = press(".sidebar [aria-label=Settings]");
const fromSettings = (label) => async (page) => {
  await settings(page);
  await page.waitForSelector(`dialog [aria-label="${label}"]`);
  await press(`dialog [aria-label="${label}"]`)(page);
  await page.waitForFunction(() => document.querySelectorAll("dialog[open]").length === 1 && !document.querySelector("dialog .switch-field"));
};
const grants = (count, pattern) => ({ grants: Array.from({ length: count }, (_, n) => ({ id: `g${n}`, tool: "Bash", label: "Run with Bash exactly", pattern, created: 1, by: { name: "link", via: "browser" }, directory: n % 2 ? "/home/me/shop" : undefined, session: n % 2 ? undefined : "other", until: n % 3 ? undefined : Date.now() + 1e7 })) });
const tokens = (count, name) => ({ tokens: Array.from({ length: count }, (_, n) => ({ name: `${name}-${n}`, role: "admin", created: 1 })) });
const appears = (selector) => (page) => page.waitForSelector(`dialog ${selector}`);
const rewind = press(".rewind-button");
const raw = (line) => ({ "GET /lines": { more: false, lines: Array.from({ length: 3 }, (_, n) => ({ seq: n + 1, at: 1, origin: "agent", line })) } });
const file = async (page) => page.evaluate(() => document.querySelector(".turn .file-link").click());
const diffs = (text) => (request) => ({ files: FILES.map((it) => ({ ...it, added: 3, removed: 2, html: diffHtml(text) })) });
const ledger = (tool, count) => ({ "GET /ledger": { entries: Array.from({ length: count }, (_, n) => ({ id: `r${n}`, tool, input: "{}", opened: 1, resolution: { outcome: "allowed_and_remembered", at: 1, by: { name: "link", via: "browser" } } })) } });

const dialogs = [
  dialog("settings", settings),
  dialog("keyboard shortcuts", press(".sidebar [aria-label^='Keyboard']")),
  dialog("new session", press(".sidebar [aria-label='New session']"), { replies: { "GET /directories": { parent: "/home", directories: [] } } }),
  dialog("new session, another agent", press(".sidebar [aria-label='New session']"), {
    then: async (page) => { await page.waitForSelector("[data-option=agent] select"); await page.locator("[data-option=agent] select").selectOption("codex"); await page.waitForSelector("[data-option=mode]", { state: "hidden" }); },
  }),
  dialog("new session, agents with long names", press(".sidebar [aria-label='New session']"), { fresh: true, replies: { "GET /agents": agentsReply([{ name: "mine", title: WORD.slice(0, 300), protocol: "acp", installed: false, install: WORD, sign_in: null, color: null, default: false }]) }, then: appears("[data-option=agent] select") }),
  dialog("another agent", menuItem("Continue with another agent…"), { then: appears("#handover") }),
  dialog("new session, many directories", press(".sidebar [aria-label='New session']"), { replies: { "GET /directories": { parent: "/home", directories: Array.from({ length: 60 }, (_, n) => ({ name: `${"directory-".repeat(n)}${n}`, path: `/home/${n}`, repository: n % 2 === 0 })) } }, then: async (page) => { await page.locator("dialog [role=combobox]").focus(); await appears(".suggestions li")(page); } }),
  dialog("switcher", (page) => page.keyboard.press("Control+k")),
  dialog("switcher, 200 long sessions", (page) => page.keyboard.press("Control+k"), { sessions: manySessions(200, WORD.slice(0, 200)) }),
  dialog("grants, none", fromSettings("Review: Always allowed")),
  dialog("grants, 40", fromSettings("Review: Always allowed"), { replies: { "GET /grants": grants(40, WORD.slice(0, 500)) }, then: appears("[data-grant]") }),
  dialog("tokens", fromSettings("Manage: Access tokens"), { replies: { "GET /tokens": tokens(2, "phone") }, then: appears("[data-token]") }),
  dialog("tokens, 40 and a new one", fromSettings("Manage: Access tokens"), {
    replies: { "GET /tokens": tokens(40, "x".repeat(60)), "POST /tokens": { name: "x".repeat(64), token: WORD } },
    then: async (page) => { await page.waitForSelector("[data-token]"); await page.locator("dialog .token-form input").fill("phone"); await page.evaluate(() => document.querySelector(".token-form").requestSubmit()); await page.waitForSelector(".secret"); },
  }),
  dialog("rename", menuItem("Rename")),
  dialog("delete", menuItem("Delete")),
  dialog("permission history", menuItem("Permission history"), { replies: ledger("Bash", 3) }),
  dialog("permission history, long", menuItem("Permission history"), { replies: ledger(`mcp__${"long".repeat(30)}`, 200) }),
  dialog("raw lines", press(".entry:has(.call) > .raw-button"), { replies: raw(JSON.stringify({ type: "assistant", message: "hello" })), then: appears(".raw-lines") }),
  dialog("raw lines, huge", press(".entry:has(.call) > .raw-button"), { replies: raw(JSON.stringify({ type: "assistant", message: WORD, lines: lines(800).split("\n") })), then: appears(".raw-lines") }),
  dialog("rewind", rewind, { replies: { "GET /rewind": { canRewind: true, filesChanged: ["/home/me/shop/src/cart.ts"], insertions: 3, deletions: 2 } }, then: appears(".preview li") }),
  dialog("rewind, 200 files", rewind, { content: () => conversation(WORD), replies: { "GET /rewind": { canRewind: true, filesChanged: Array.from({ length: 200 }, (_, n) => `/home/me/${WORD.slice(0, 200)}/${n}`), insertions: 3, deletions: 2 } }, then: appears(".preview li") }),
  dialog("rewind, impossible", rewind, { replies: { "GET /rewind": { canRewind: false, error: WORD } }, then: appears(".preview .warning") }),
  dialog("changes of a file", file, { fresh: true, replies: { "GET /turns/1/files": diffs(lines(4)) }, then: appears(".diff") }),
  dialog("changes of a file, 800 lines", file, { fresh: true, replies: { "GET /turns/1/files": diffs(`${lines(800)}\n${WORD}`) }, then: appears(".diff") }),
  dialog("an image", (page) => page.evaluate(() => import("/js/dialogs/dialogs.js").then((it) => it.showImage("/icon.svg")))),
];
const menus = [
  ["mode menu", ".status .chip-button[title^='Permission mode']", {}],
  ["model menu", ".status .chip-button[title^='Model']", {}],
  ["model menu, 40 models", ".status .chip-button[title^='Model']", { fresh: true, replies: { "POST /wake": { commands: [], models: Array.from({ length: 40 }, (_, n) => ({ value: `m${n}`, name: `Model ${n} ${WORD.slice(0, n * 4)}`, description: "The most capable one for ambitious work" })) } } }],
  ["modes of another agent", ".status .chip-button[title^='Permission mode']", { sessions: () => [session({ agent: CODEX })], replies: { "GET /agent": acpAgentReply() } }],
  ["40 options of another agent", ".status .chip-button[title^='Model']", { sessions: () => [session({ agent: CODEX })], replies: { "GET /agent": acpAgentReply(40, WORD.slice(0, 120)) } }],
  ["session menu", ".bar [aria-label='Session menu']", {}],
].map(([name, selector, more]) => ({
  name, each: true, content: () => conversation("Fix the cart"), ...more,
  open: async (page) => { await press(selector)(page); await page.waitForSelector(".popover button"); },
  close: async (page) => { await page.evaluate(() => document.querySelector(".popover").hidePopover()); await page.waitForSelector(".popover", { state: "detached" }); },
}));
const side = {
  name: "changes and tasks", each: true, content: () => ({ ...conversation("Fix the cart"), todos: todos(30, WORD.slice(0, 300)) }),
  open: async (page) => { await press(".bar [aria-label^='Changes']")(page); await page.waitForSelector(".side-row"); },
  close: async (page) => { await page.evaluate(() => { const open = document.querySelector("dialog"); if (open) open.close(); else document.querySelector(".side [aria-label^=Close]")?.click(); }); await page.waitForSelector("dialog, .side", { state: "detached" }); },
};
const goto = (hash) => async (page) => page.evaluate((hash) => (location.hash = hash), hash);
const usage = (count, title) => ({ "GET /usage": { days: Array.from({ length: count }, (_, n) => ({ day: `2026-01-${String((n % 28) + 1).padStart(2, "0")}`, model: `claude-${title}-${n % 5}`, session: `s${n}`, title: `${title} ${n}`, cost: n / 10, turns: n, tokens: { input: n * 1000, output: n * 100, cache_read: n, cache_write: n } })) } });
const planOf = (title, rejected) => ({ today: 20.1, budget_per_day: 20, windows: ["five_hour", "seven_day", title].map((window, n) => ({ window, used: [0.42, 0.93, 0][n], status: rejected && n === 0 ? "rejected" : "allowed", resets_at: Date.now() / 1000 + 3600 * (n + 1), at: 1_790_000_000_000, session: "22222222-2222-4222-8222-222222222222", title })) });
const usageWith = (replies, more) => ({ "GET /usage": { ...replies["GET /usage"], ...more } });
const showUsage = async (page) => { await goto("#/usage")(page); await page.waitForSelector(".figures"); };
const pages = [
  { name: "usage, with windows of the plan", replies: usageWith(usage(40, "opus"), planOf("Fix the cart", true)), open: showUsage, close: back },
  { name: "usage, with windows of long names", replies: usageWith(usage(3, "opus"), planOf(WORD.slice(0, 400), false)), open: showUsage, close: back },
  { name: "usage", replies: usage(40, "opus"), open: async (page) => { await goto("#/usage")(page); await page.waitForSelector(".figures"); }, close: back },
  { name: "usage, long words", replies: usage(400, WORD.slice(0, 200)), open: async (page) => { await goto("#/usage")(page); await page.waitForSelector(".figures"); }, close: back },
  { name: "no sessions", fresh: true, bare: true, open: async (page, stubbed) => { stubbed.sessions = []; stubbed.sockets.clear(); await page.goto(stubbed.address.replace(/#.*/, "#/")); await page.reload(); await page.waitForSelector(".empty h2"); }, close: async (page, stubbed) => { stubbed.sessions = [session()]; stubbed.sockets.clear(); await page.goto(stubbed.address); await page.reload(); await page.waitForSelector(".composer"); } },
  {
    name: "sign-in", fresh: false, bare: true, replies: { "POST /sign-in": { status: 401, type: "x#unauthorized", title: "no", detail: `That token is not known. ${WORD}` } },
    open: async (page, stubbed) => { const { me } = stubbed; stubbed.me = { status: 401, title: "sign in" }; stubbed.saved = me; await page.reload(); await page.waitForSelector(".sign-in"); await page.getByLabel("Access token").fill("wrong"); await page.keyboard.press("Enter"); await page.waitForFunction(() => document.querySelector(".form-error").textContent); },
    close: async (page, stubbed) => { stubbed.me = stubbed.saved; await stubbed.reload(); },
  },
];

const sheets = optionViews({ dialog, press, menuItem, appears });
const notifying = pushViews({ dialog, settings, fromSettings, tokens });
const otherSessions = sessionViews({ drawer, back });
const files = fileViews({ back, press });
const git = gitViews({ dialog, press, menuItem, appears, drawer });
const reading = readingViews({ dialog, menuItem, appears });

const composing = pageViews({ write, press });



export const VIEWS = [...cards, ...choiceCards, ...questions, ...plans, ...page, ...lists, ...dialogs, ...sheets, ...menus, side, ...otherSessions, ...files, ...terminalViews({ back }), ...pages, ...git, ...reading, ...composing, ...notifying, ...scheduleViews(conversation), ...fleetViews({ conversation, fromSettings, press, drawer })];
