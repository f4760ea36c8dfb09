// What the page does in unusual browsers and with unusual content. The API is a stub, so that each case
// takes a moment.
import { assert, composer, DESKTOP, PHONE, until } from "./fixture.mjs";
import { callHtml, codeHtml, item, OFFLINE, request, session, stubbedSteps } from "./stub-api.mjs";

const card = (page) => page.locator("section.request");
const queued = (more) => ({ id: "33333333-3333-4333-8333-333333333333", text: "bring tea", delivery: "queue", state: "queued", images: 1, ...more });
const OTHER = "22222222-2222-4222-8222-222222222222";

const steps = {
  "a browser whose notifications can only come from a worker shows the list and notifies": async (open) => {
    const stubbed = await open(PHONE, () => {
      window.Notification = class {
        static permission = "granted";
        constructor() {
          throw new TypeError("Illegal constructor");
        }
      };
      localStorage.setItem("towpath.notify", "on");
      navigator.serviceWorker.getRegistration = async () => ({ showNotification: async (...all) => (window.notified = all) });
    });
    await stubbed.show();
    stubbed.sendToList({ frame: "session", session: session({ id: OTHER, title: "Another", tier: "needs_you", status: "waiting", requests: 1 }) });
    await stubbed.page.waitForFunction(() => document.querySelector(".tier.needs") && window.notified);
    const [title, options] = await stubbed.page.evaluate(() => window.notified);
    assert.deepEqual([title, options.data.session], ["Another needs you", OTHER]);
  },
  "a browser that notifies nowhere still shows the list": async (open) => {
    const stubbed = await open(PHONE, () => {
      window.Notification = class {
        static permission = "granted";
        constructor() {
          throw new TypeError("Illegal constructor");
        }
      };
      localStorage.setItem("towpath.notify", "on");
      Object.defineProperty(navigator, "serviceWorker", { value: undefined });
    });
    await stubbed.show();
    stubbed.sendToList({ frame: "session", session: session({ tier: "needs_you", status: "waiting", requests: 1 }) });
    await stubbed.page.waitForSelector(".tier.needs", { state: "attached" });
  },
  "without storage the page works, and remembers until it is closed": async (open) => {
    const blocked = [
      () => Object.defineProperty(window, "localStorage", { get() { throw new DOMException("The operation is insecure.", "SecurityError"); } }),
      () => Object.defineProperty(window, "localStorage", { value: null }),
    ];
    for (const init of blocked) {
      const stubbed = await open(DESKTOP, init);
      const { page } = stubbed;
      await stubbed.show({ requests: [request({ disclosures: [{ label: "Command", text: "ls" }] })] }, [session(), session({ id: OTHER, title: "Another" })]);
      await card(page).waitFor();
      await composer(page).fill("a draft");
      await page.locator(`[data-session="${OTHER}"]`).click();
      await until("the other session has no draft", async () => (await composer(page).inputValue()) === "");
      await page.goBack();
      await until("the draft is kept", async () => (await composer(page).inputValue()) === "a draft");
      await page.getByRole("button", { name: "Settings" }).click();
      await page.getByLabel("Theme").selectOption("dark");
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
      await stubbed.context.close();
    }
  },
  "a message on its way is back after a reload, and is sent once": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const sent = () => stubbed.calls.filter((it) => it.path === "/prompts");
    const prompt = (id, text) => ({ id, text, author: "user", images: 0, state: "done" });
    stubbed.replies = { "POST /prompts": OFFLINE };
    await stubbed.show();
    await composer(page).fill("words that matter");
    await composer(page).press("Enter");
    await until("it is sent", () => sent().length > 0);
    await stubbed.reload();
    await until("it is back", async () => (await composer(page).inputValue()) === "words that matter");
    const { id } = sent()[0].body;
    stubbed.replies = { "POST /prompts": { id, state: "queued" } };
    await composer(page).press("Enter");
    await until("it is sent again", () => sent().at(-1).body.text === "words that matter" && sent().length > 1);
    assert.deepEqual([...new Set(sent().map((it) => it.body.id))], [id], "the server knows it by its id");
    await until("it is no draft", async () => (await page.evaluate(() => Object.keys(localStorage).filter((it) => it.startsWith("towpath.draft")))).length === 0);
    // One that the server has, although its response was lost, is not put back.
    stubbed.replies = { "POST /prompts": OFFLINE };
    await composer(page).fill("arrived");
    await composer(page).press("Enter");
    await until("it is sent", () => sent().at(-1).body.text === "arrived");
    const arrived = prompt(sent().at(-1).body.id, "arrived");
    stubbed.snapshot = { ...stubbed.snapshot, items: [item(`<div class="item prompt"><div class="words">arrived</div></div>`, { kind: "prompt", prompt: arrived })] };
    await stubbed.reload();
    await page.locator(".item.prompt").waitFor();
    assert.equal(await composer(page).inputValue(), "");
  },
  "a request of an unknown kind shows what it is, and can only be denied": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const input = JSON.stringify({ subtype: "open_portal", where: "<b>nowhere</b>" });
    const unknown = request({ kind: "unknown", tool: "open_portal", action: "other", input, disclosures: [{ label: "Input", text: input }] });
    await stubbed.show({ requests: [unknown] }, [session({ tier: "needs_you", requests: 1 })]);
    await page.waitForSelector(".tier.needs");
    assert.match(await card(page).textContent(), /open_portal.*<b>nowhere<\/b>/s);
    assert.equal(await card(page).getByRole("button", { name: /Allow/ }).count(), 0);
    await card(page).focus();
    await page.waitForTimeout(400);
    await page.keyboard.press("y");
    await page.keyboard.press("a");
    assert.deepEqual(stubbed.calls.filter((it) => it.method === "POST"), []);
    await page.keyboard.press("n");
    await until("it is denied", () => stubbed.calls.some((it) => it.path === `/requests/${unknown.id}` && it.body.decision === "deny"));
  },
  "a request that names no tool can be answered": async (open) => {
    const stubbed = await open(DESKTOP);
    await stubbed.show({ requests: [request({ tool: "", action: "other", disclosures: [{ label: "Input", text: "[]" }] })] });
    assert.match(await card(stubbed.page).textContent(), /an unknown tool/);
    await card(stubbed.page).getByRole("button", { name: /Allow once/ }).click();
    await until("it is allowed", () => stubbed.calls.some((it) => it.body?.decision === "allow"));
  },
  "a session that cannot be read is in the list with the reason": async (open) => {
    const stubbed = await open(DESKTOP);
    const problem = "its journal is damaged from entry 4 on";
    await stubbed.show({}, [session(), session({ id: OTHER, title: "Another", problem })]);
    const row = stubbed.page.locator(`[data-session="${OTHER}"]`);
    assert.match(await row.textContent(), new RegExp(problem));
    assert.equal(await row.locator(".status-dot.failed").count(), 1);
  },
  "the back button leaves no dialog of another session": async (open) => {
    const stubbed = await open(PHONE);
    const { page } = stubbed;
    await stubbed.show({}, [session(), session({ id: OTHER, title: "Another" })]);
    await page.evaluate((id) => (location.hash = `#/s/${id}`), OTHER);
    await page.waitForFunction((id) => location.hash.includes(id) && document.querySelector(".bar h1"), OTHER);
    await page.getByRole("button", { name: "Session menu" }).click();
    await page.getByRole("menuitem", { name: "Rename" }).click();
    await page.getByRole("dialog", { name: "Rename session" }).waitFor();
    await page.evaluate(() => history.back());
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.deepEqual(stubbed.calls.filter((it) => it.method === "PATCH"), []);
  },
  "the back gesture of a phone closes the drawer and nothing else": async (open) => {
    const stubbed = await open(PHONE, () => {
      window.watchers = [];
      window.CloseWatcher = class {
        constructor() {
          window.watchers.push(this);
        }
        destroy() {
          window.watchers = window.watchers.filter((it) => it !== this);
        }
      };
    });
    const { page } = stubbed;
    await stubbed.show();
    assert.equal(await page.evaluate(() => window.watchers.length), 0);
    await page.getByRole("button", { name: "Sessions", exact: true }).click();
    await page.locator(".sidebar.open").waitFor();
    await page.evaluate(() => window.watchers[0].onclose());
    await page.locator(".sidebar.open").waitFor({ state: "detached" });
    assert.equal(await page.evaluate(() => window.watchers.length), 0);
    await composer(page).waitFor();
  },
  "a waiting call is closed in the conversation, because its card shows it": async (open) => {
    const stubbed = await open(DESKTOP);
    const asked = request({ tool: "Write", action: "write", target: "/home/me/a.txt", disclosures: [{ label: "File", text: "/home/me/a.txt" }], html: callHtml({ body: codeHtml("one") }) });
    const call = { action: "write", state: "waiting", target: "/home/me/a.txt", tool: "Write", images: 0, request: asked.id };
    await stubbed.show({ requests: [asked], items: [item(callHtml({ body: codeHtml("one") }), { kind: "call", call })] });
    const { page } = stubbed;
    assert.equal(await page.locator(".log .call .body").isVisible(), false);
    await page.locator(".log").getByRole("button", { name: "Review below" }).click();
    assert.equal(await card(page).evaluate((it) => it === document.activeElement), true);
    await page.locator(".log").getByRole("button", { name: "Deny" }).click();
    await until("it is denied", () => stubbed.calls.some((it) => it.body?.decision === "deny"));
  },
  "a table on a phone scrolls and does not break its words": async (open) => {
    const stubbed = await open(PHONE);
    const cells = ["a long cell value", "1,234.00", "centred", "another long value"].map((it) => `<td>${it}</td>`).join("");
    await stubbed.show({ items: [item(`<div class="item text"><div class="table"><table><tr><th>Column A</th><th>Column B</th><th>Column C with a long title</th><th>D</th></tr><tr>${cells}</tr></table></div></div>`)] });
    const lines = await stubbed.page.evaluate(() => {
      const range = document.createRange();
      range.selectNodeContents(document.querySelectorAll(".table td")[1]);
      return range.getClientRects().length;
    });
    assert.equal(lines, 1);
  },
  "a waiting prompt joins the turn with one call, and keeps its images": async (open) => {
    const stubbed = await open(DESKTOP);
    await stubbed.show({ queue: [queued()], status: { phase: { kind: "working" } } });
    await stubbed.page.getByRole("button", { name: "Send now" }).click();
    await until("it is sent", () => stubbed.calls.some((it) => it.path.startsWith("/prompts/")));
    const calls = stubbed.calls.filter((it) => it.path.startsWith("/prompts"));
    assert.deepEqual(calls, [{ method: "PATCH", path: `/prompts/${queued().id}`, body: { delivery: "steer" } }]);
  },
  "a rewind starts the agent if none runs": async (open) => {
    const stubbed = await open(DESKTOP);
    let runs = false;
    stubbed.replies = {
      "GET /rewind": () => (runs ? { canRewind: true, filesChanged: ["/home/me/shop/a.txt"], insertions: 1, deletions: 2 } : { status: 409, type: "about:towpath#no-agent", title: "no agent", detail: "no agent runs" }),
      "POST /wake": () => ((runs = true), { commands: [], models: [] }),
    };
    const prompt = { id: "p1", author: "user", text: "Fix it", images: 0, state: "done" };
    await stubbed.show({ items: [item(`<div class="item prompt"><div class="words">Fix it</div></div>`, { kind: "prompt", prompt })] });
    await stubbed.page.getByRole("button", { name: "Rewind to before this message" }).press("Enter");
    await stubbed.page.getByRole("dialog").getByText("1 file would be restored").waitFor();
  },
  "older messages are found behind many empty turns": async (open) => {
    const stubbed = await open(DESKTOP);
    const old = item(`<div class="item text"><p>Long ago</p></div>`, { turn: 0, position: [0, 0] });
    stubbed.replies = {
      "GET /items": (request) => (request.url().includes("before=0.5") ? { items: [old], turns: [], more: false } : { items: [], turns: [], more: true, before: "0.5" }),
    };
    await stubbed.show({ more: true, items: [item(`<div class="item text"><p>Now</p></div>`)] });
    await stubbed.page.getByText("Long ago").waitFor();
  },
  "a line that is too long to be sent has a link": async (open) => {
    const stubbed = await open(DESKTOP);
    stubbed.replies = { "GET /lines": { more: true, lines: [{ seq: 1, at: 1, origin: "agent", bytes: 5_000_000, omitted: true }] } };
    await stubbed.show({ items: [item(`<div class="item text"><p>Hello</p></div>`, { first: 1, rev: 1 })] });
    await stubbed.page.getByRole("button", { name: "Show raw lines" }).press("Enter");
    const link = stubbed.page.getByRole("dialog").getByRole("link", { name: "Whole line" });
    assert.match(await link.getAttribute("href"), /\/lines\/1$/);
  },
};

await stubbedSteps(steps);
