// Reading on the page: formulas, highlighted matches, the outline, links to turns, copying an answer, the
// export, themes and sizes, dictation. The first step is with the real server, the others with a stub.
import { readFileSync } from "node:fs";
import { assert, clean, composer, DESKTOP, PHONE, Screen, Server, until } from "./fixture.mjs";
import { item, session, stubbedSteps } from "./stub-api.mjs";
import { agentFilesReply } from "./stub-options.mjs";

const said = (n, html, more = {}) => item(html, { id: `said-${n}`, position: [n, 0], first: n, rev: n, turn: Math.ceil(n / 2), ...more });
const text = (n, words) => said(n, `<div class="item text"><p>${words}</p></div>`);
const prompt = (n, words) => said(n, `<div class="item prompt"><div class="words">${words}</div></div>`, { kind: "prompt", prompt: { id: `p${n}`, author: "user", text: words, images: 0, state: "done" } });
const turn = (number) => ({ number, first: number * 2 - 1, rev: 1, files: [], prompts: [], rewound: false, end: { ending: "completed" }, tokens: {}, html: `<div class="end">3 s</div>` });
const long = (count) => ({ items: Array.from({ length: count }, (_, n) => [prompt(n * 2 + 1, `Question ${n}`), text(n * 2 + 2, `The canal lock of answer ${n}. ${"More words. ".repeat(60)}`)]).flat(), turns: Array.from({ length: count }, (_, n) => turn(n + 1)) });
const marked = (page) => page.evaluate(() => [...(CSS.highlights.get("searched") ?? [])].map((it) => it.toString()));
const inSight = (locator) => locator.evaluate((it) => { const { top, bottom } = it.getBoundingClientRect(); return top < innerHeight && bottom > 0; });

await stubbedSteps({
  "a match of the search is marked in the conversation after it was opened": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    stubbed.replies = { "GET /search": { results: [{ session: session().id, transcript: null, title: "Fix the cart", cwd: "/home/me/shop", at: 1, role: "assistant", position: "4.0", snippet: [{ text: "The ", match: false }, { text: "canal", match: true }, { text: " lock", match: false }] }], more: null, indexing: null } };
    await stubbed.show(long(12));
    await page.getByLabel("Search all sessions").fill("canal");
    await page.locator(".found-text").first().click();
    await until("it is marked", async () => (await marked(page)).length > 0);
    assert.deepEqual(await marked(page), ["canal"]);
    await until("it is in sight", () => inSight(page.locator('[data-id="said-4"] p')));
    // Finding in the conversation marks all matches, and closing it none.
    await page.getByLabel("Find in this conversation (f)").click();
    await page.getByLabel("Find in this conversation", { exact: true }).fill("lock of answer");
    await until("all are marked", async () => (await marked(page)).length === 12);
    await page.keyboard.press("Escape");
    assert.deepEqual(await marked(page), []);
  },
  "the outline lists the messages, filters them and leads to one, by keyboard too": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    stubbed.replies = { "GET /outline": { total: 12, prompts: Array.from({ length: 12 }, (_, n) => ({ position: [n * 2 + 1, 0], turn: n + 1, at: 1, text: `Question ${n} <img src=x onerror=window.hurt=1>` })) } };
    await stubbed.show(long(12));
    await composer(page).press("Escape");
    await page.keyboard.press("o");
    await page.locator(".outline a").nth(11).waitFor();
    await clean(page, "outline");
    await page.keyboard.type("question 3");
    await until("one is left", async () => (await page.locator(".outline a").count()) === 1);
    await page.keyboard.press("Enter");
    await page.waitForSelector("dialog", { state: "detached" });
    await until("the address", () => page.evaluate(() => location.hash.endsWith("/at/7.0")));
    await until("it is in sight", () => inSight(page.locator('[data-id="said-7"]')));
    assert.equal(await page.evaluate(() => window.hurt), undefined);
  },
  "an answer is copied as Markdown, and a link leads to its turn": async (open) => {
    const stubbed = await open(DESKTOP, () => {
      window.copied = [];
      Object.defineProperty(navigator, "clipboard", { value: { writeText: async (it) => void window.copied.push(it) } });
    });
    const { page } = stubbed;
    stubbed.replies = { "GET /items/said-4": { item: {}, source: { text: "The **canal** lock" } } };
    await stubbed.show(long(3));
    await page.locator('[data-turn="2"] [aria-label="Copy the answer"]').click();
    await until("it is copied", () => page.evaluate(() => window.copied[0] === "The **canal** lock"));
    await page.locator('[data-turn="2"] [aria-label="Copy a link to this turn"]').click();
    const link = await until("a link", () => page.evaluate(() => window.copied[1]));
    assert.ok(link.endsWith(`#/s/${session().id}/at/3.0`), link);
  },
  "a finger copies code with a button that does not scroll away": async (open) => {
    const stubbed = await open(PHONE, () => {
      window.copied = [];
      Object.defineProperty(navigator, "clipboard", { value: { writeText: async (it) => void window.copied.push(it) } });
    });
    const { page } = stubbed;
    await stubbed.show({ items: [said(1, `<div class="item text"><pre class="code" data-language="sh"><code>echo ${"wide ".repeat(100)}</code></pre></div>`)], turns: [] });
    await page.getByLabel("Copy the code").tap();
    await until("it is copied", () => page.evaluate(() => window.copied[0]?.startsWith("echo wide")));
  },
  "themes and sizes are kept, and apply before the first paint": async (open) => {
    const stubbed = await open(PHONE);
    const { page } = stubbed;
    await stubbed.show(long(3));
    const size = () => page.evaluate(() => parseFloat(getComputedStyle(document.body).fontSize));
    const usual = await size();
    await page.evaluate(() => document.querySelector(".sidebar [aria-label=Settings]").click());
    await page.getByLabel("Theme").selectOption("contrast");
    await page.getByLabel("Text size").selectOption("largest");
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
    assert.ok((await size()) > usual * 1.4);
    await clean(page, "settings in high contrast");
    await stubbed.reload();
    assert.deepEqual(await page.evaluate(() => ({ ...document.documentElement.dataset })), { theme: "contrast", size: "largest" });
  },
  "what files add to the agent is shown as text": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    stubbed.replies = { "GET /agent/files": { ...agentFilesReply(2, "<img src=x onerror=window.hurt=2>"), problems: [".claude/settings.json is not JSON"] } };
    await stubbed.show(long(1));
    await page.evaluate((id) => (location.hash = `#/s/${id}?sheet=agent`), session().id);
    await page.locator(".file-entries li").first().waitFor();
    await clean(page, "files of the agent");
    assert.ok((await page.locator(".agent-files").textContent()).includes("is not JSON"));
    assert.equal(await page.evaluate(() => window.hurt), undefined);
  },
  "dictation writes into the message, never sends, and says what is wrong": async (open) => {
    const stubbed = await open(DESKTOP, () => {
      window.SpeechRecognition = class {
        start() { window.recogniser = this; }
        stop() { this.onend(); }
        abort() { this.aborted = true; this.onend(); }
      };
    });
    const { page } = stubbed;
    await stubbed.show(long(1));
    const button = page.locator(".dictate");
    await composer(page).fill("Please");
    await button.click();
    await page.waitForFunction(() => window.recogniser);
    const say = (words) => page.evaluate((words) => window.recogniser.onresult({ results: [[{ transcript: words }]] }), words);
    await say("fix");
    await say("fix the cart");
    assert.equal(await composer(page).inputValue(), "Please fix the cart");
    assert.equal(await button.getAttribute("aria-pressed"), "true");
    await clean(page, "dictating");
    assert.equal(stubbed.calls.filter((it) => it.method === "POST" && it.path === "/prompts").length, 0);
    await composer(page).press("Enter");
    await until("it is sent", () => stubbed.calls.some((it) => it.path === "/prompts"));
    assert.equal(await page.evaluate(() => window.recogniser.aborted), true);
    assert.equal(await button.getAttribute("aria-pressed"), "false");
    await page.evaluate(() => (window.recogniser = undefined));
    await button.click();
    await page.waitForFunction(() => window.recogniser);
    await page.evaluate(() => { window.recogniser.onerror({ error: "not-allowed" }); window.recogniser.onend(); });
    await page.getByText("does not allow the microphone").waitFor();
  },
  "without a recogniser there is no button": async (open) => {
    const stubbed = await open(DESKTOP, () => { delete window.SpeechRecognition; delete window.webkitSpeechRecognition; });
    await stubbed.show(long(1));
    assert.equal(await stubbed.page.locator(".dictate").count(), 0);
  },
});

// The real server: a session is downloaded as one file, which opens without it.
const server = await Server.start({ demo: true });
const screen = await Screen.open(server);
try {
  const id = await server.session();
  await server.prompt(id, "hello <b>there</b>");
  await until("an answer", async () => (await server.texts(id)).length > 0);
  const page = await screen.page(DESKTOP, id);
  await page.evaluate((id) => (location.hash = `#/s/${id}?sheet=share`), id);
  await clean(page, "share");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download" }).click()]);
  assert.match(download.suggestedFilename(), /^session-.*\.html$/);
  const file = readFileSync(await download.path(), "utf8");
  assert.ok(file.includes("hello &lt;b&gt;there"), file.slice(0, 2000));
  const alone = await screen.browser.newPage();
  screen.watch(alone);
  await alone.setContent(file);
  await alone.getByText("hello <b>there</b>").first().waitFor();
  const outline = await server.ask("GET", `/sessions/${id}/outline`);
  assert.deepEqual(outline.prompts.map((it) => it.text), ["hello <b>there</b>"]);
  await screen.close();
} finally {
  await screen.browser.close().catch(() => undefined);
  await server.stop();
}
