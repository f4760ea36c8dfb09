// Sessions that the CLI ran without the server, in the list and as pages. The API is a stub.
import { assert, clean, composer, DESKTOP, PHONE, until } from "./fixture.mjs";
import { item, OFFLINE, stubbedSteps, transcript, transcriptPages } from "./stub-api.mjs";

const EVIL = "<img src=x onerror=window.hurt=41><script>window.hurt=42</script>";
const NEW = "55555555-5555-4555-8555-555555555555";
const said = (n, text = `Said ${n}`) => item(`<div class="item text"><p>${text}</p></div>`, { id: `said-${n}`, position: [n, 0], turn: Math.ceil(n / 10), first: n, rev: n });
const range = (from, to) => Array.from({ length: to - from + 1 }, (_, n) => said(from + n));
/** A transcript that grows: what the server answers about it. */
const shown = (about, count) => (request) => {
  const query = new URL(request.url()).searchParams;
  const before = Number(query.get("before")?.split(".")[0] ?? count.now + 1);
  const first = Math.max(1, before - Number(query.get("limit") ?? 50));
  const page = { items: range(first, before - 1), turns: [], more: first > 1 };
  return { tag: `"${count.now}-${JSON.stringify(about()).length}"`, body: { transcript: about(), page } };
};
const rows = (page) => page.locator(".other-row").count();
const openList = (page) => page.locator("button.tier", { hasText: "Other sessions" }).click();
const openPage = (page, one) => page.evaluate((id) => (location.hash = `#/t/${id}`), one.id);
const harmless = async (page) => {
  assert.equal(await page.evaluate(() => window.hurt), undefined, "nothing ran");
  assert.equal(await page.locator("#app script, #app [onerror], #app img[src=x]").count(), 0, "nothing became markup");
};

await stubbedSteps({
  "a thousand sessions are listed by project, and only those in sight exist": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const all = Array.from({ length: 1000 }, (_, n) => transcript(n, { cwd: `/home/me/project-${n % 4}`, in_terminal: n === 5 }));
    stubbed.replies = { "GET /transcripts": transcriptPages(all) };
    await stubbed.show();
    assert.deepEqual(stubbed.calls.filter((it) => it.path === "/transcripts"), [], "nothing is read before someone looks");
    await openList(page);
    await page.waitForFunction(() => [...document.querySelectorAll(".project-row .since")].map((it) => it.textContent).join() === "250,250,250,250");
    assert.equal(stubbed.calls.filter((it) => it.path === "/transcripts").length, 3, "pages of 100 and 500");
    assert.equal(await rows(page), 0, "projects are closed");
    await page.locator(".project-row").first().click();
    await page.locator(".other-row").first().waitFor();
    assert.match(await page.locator(".other-row").first().textContent(), /Transcript 0.*main120 kB · \$0\.40/);
    const few = await rows(page);
    assert.ok(few > 3 && few < 40, `${few} rows exist`);
    await clean(page, "other sessions");
    // The last one of the first project is a long way down.
    await page.evaluate(() => (document.querySelector(".sidebar-list").scrollTop = 1e6));
    await page.locator(".project-row", { hasText: "project-3" }).waitFor();
    assert.ok((await rows(page)) < 40);
    await page.locator(".other-row", { hasText: "Transcript 996" }).waitFor();
    // The second project has a session that a terminal uses.
    await page.locator(".project-row", { hasText: "project-1" }).click();
    await page.locator(".other-row", { hasText: "in a terminal" }).waitFor();
  },
  "the list is used with the keyboard": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const all = Array.from({ length: 300 }, (_, n) => transcript(n, { cwd: `/home/me/project-${n % 2}` }));
    const one = all[4];
    stubbed.replies = { "GET /transcripts": transcriptPages(all), [`GET /transcripts/${one.id}`]: shown(() => one, { now: 3 }) };
    await stubbed.show();
    await page.locator("button.tier").focus();
    await page.keyboard.press("Enter");
    await page.locator(".project-row").nth(1).waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("ArrowRight");
    for (let n = 0; n < 60; n += 1) await page.keyboard.press("ArrowDown");
    assert.equal(await page.evaluate(() => document.activeElement.dataset.transcript), all[118].id, "the focus goes on beyond what was in sight");
    assert.ok((await rows(page)) < 40);
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.locator(".bar h1", { hasText: one.title }).waitFor();
    assert.equal(await page.locator(`[data-transcript="${one.id}"]`).getAttribute("aria-current"), "page");
  },
  "long, right-to-left and hostile titles stay text in their rows": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const titles = ["x".repeat(5000), "word ".repeat(1000), "עברית ואז English", "\u202egnp.exe\u202c", EVIL, "", null, "👩‍👩‍👧".repeat(1000)];
    const all = titles.map((title, n) => transcript(n, { title, branch: n % 2 ? EVIL : "b".repeat(5000), cwd: `/home/me/${EVIL.replaceAll("/", "")}` }));
    stubbed.replies = { "GET /transcripts": transcriptPages(all), [`GET /transcripts/${all[4].id}`]: shown(() => all[4], { now: 2 }) };
    await stubbed.show();
    await openList(page);
    await page.locator(".other-row").first().waitFor();
    const boxes = await page.$$eval(".other-row", (all) => all.map((it) => [it.scrollWidth - it.clientWidth, it.getBoundingClientRect().height]));
    assert.equal(boxes.length, titles.length);
    assert.ok(boxes.every(([wide, high]) => wide <= 0 && high === boxes[0][1]), JSON.stringify(boxes));
    assert.ok((await page.locator(".other-row .name").first().textContent()).length <= 300);
    await harmless(page);
    await page.locator(".other-row").nth(4).click();
    await page.locator(".continue").waitFor();
    assert.equal(await page.textContent(".bar h1"), EVIL);
    await harmless(page);
  },
  "no sessions, and a list that cannot be read, are said": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    stubbed.replies = { "GET /transcripts": OFFLINE };
    await stubbed.show();
    await openList(page);
    await page.getByText("The server cannot be reached.").waitFor();
    stubbed.replies = {};
    await page.locator(".sidebar").getByRole("button", { name: "Try again" }).click();
    await page.getByText("The CLI has no sessions of its own").waitFor();
    await page.reload();
    await page.getByText("The CLI has no sessions of its own").waitFor();
  },
  "a transcript is read page by page, and followed while it grows": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const one = transcript(1, { in_terminal: true });
    const count = { now: 400 };
    stubbed.replies = { [`GET /transcripts/${one.id}`]: shown(() => one, count) };
    await stubbed.show();
    await openPage(page, one);
    await page.getByText("Said 400", { exact: true }).waitFor();
    assert.equal(await page.locator(".composer").count(), 0);
    assert.equal(await page.locator(".raw-button").count(), 0, "its lines are not in the journal");
    // At the end it is followed, even when more came than one page has.
    count.now = 900;
    await page.getByText("Said 900", { exact: true }).waitFor();
    await page.waitForFunction(() => document.documentElement.scrollHeight - innerHeight - scrollY < 60);
    assert.equal(await page.locator(".entry").count(), 650, "without a gap");
    // Elsewhere nothing moves.
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight / 2));
    await page.locator(".new-pill:not([hidden])").waitFor();
    const middle = () => page.evaluate(() => [...document.querySelectorAll(".entry")].find((it) => it.getBoundingClientRect().bottom > 60).textContent);
    const before = await middle();
    count.now = 905;
    await page.getByText("Said 905", { exact: true }).waitFor({ state: "attached" });
    assert.equal(await middle(), before);
    await until("the first one is there", async () => {
      await page.evaluate(() => scrollTo(0, 0));
      return page.getByText("Said 1", { exact: true }).count();
    });
    assert.equal(await page.locator(".entry").count(), 905);
  },
  "nothing is asked while the page is hidden, and little while nothing changes": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const one = transcript(1, { modified: Date.now() });
    let [asked, unchanged] = [0, 0];
    const answer = shown(() => one, { now: 5 });
    stubbed.replies = { [`GET /transcripts/${one.id}`]: (request) => { asked += 1; if (request.headers()["if-none-match"]) unchanged += 1; return answer(request); } };
    await stubbed.show();
    await page.clock.install();
    await openPage(page, one);
    for (const times of [1, 2]) {
      await until("it was read", () => asked === times);
      await page.locator(".continue").waitFor();
      await page.clock.runFor(2100);
      await until("it is asked again", () => unchanged === times);
    }
    assert.equal(asked - unchanged, 1, "it is read once");
    await page.evaluate(() => Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true }));
    await page.clock.runFor(60_000);
    assert.equal(asked, 3);
    await page.evaluate(() => { Object.defineProperty(document, "visibilityState", { value: "visible" }); document.dispatchEvent(new Event("visibilitychange")); });
    await until("it is asked at once", () => asked === 4);
  },
  "it is continued, as a session in the same place": async (open) => {
    for (const [name, fork] of [["Continue here", undefined], ["Fork", true]]) {
      const stubbed = await open(PHONE);
      const { page } = stubbed;
      const one = transcript(1, { title: `Long\n title ${"x".repeat(400)}` });
      stubbed.replies = { [`GET /transcripts/${one.id}`]: shown(() => one, { now: 20 }), "POST /sessions": { id: NEW } };
      await stubbed.show();
      const before = await page.evaluate(() => history.length);
      await openPage(page, one);
      await clean(page, "a transcript");
      await page.getByRole("button", { name, exact: true }).click();
      await composer(page).waitFor();
      assert.equal(await page.evaluate(() => location.hash), `#/s/${NEW}`);
      const { body } = stubbed.calls.find((it) => it.method === "POST" && it.path === "/sessions");
      assert.deepEqual([body.resume, body.fork, body.cwd, body.title.length], [one.id, fork, one.cwd, 200]);
      assert.equal(await page.evaluate(() => history.length), before + 1, "going back does not lead to the transcript");
    }
  },
  "what a terminal uses can only be forked": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    let one = transcript(1, { modified: Date.now() });
    stubbed.replies = { [`GET /transcripts/${one.id}`]: shown(() => one, { now: 20 }), "POST /sessions": { status: 409, type: "about:towpath#open-elsewhere", title: "open elsewhere", detail: "a terminal has this conversation open" } };
    await stubbed.show();
    await openPage(page, one);
    // Someone opened it after it was read.
    await page.getByRole("button", { name: "Continue here" }).click();
    await page.getByText("a terminal has this conversation open").waitFor();
    await page.getByRole("button", { name: "Continue here" }).waitFor({ state: "detached" });
    assert.equal(await page.getByRole("button", { name: "Fork" }).isEnabled(), true);
    await page.getByText("In use in a terminal").waitFor();
    one = { ...one, in_terminal: false, size: 5 };
    await page.getByRole("button", { name: "Continue here" }).waitFor();
    one = { ...one, session: NEW };
    await page.getByRole("link", { name: "Open it" }).waitFor();
    assert.equal(await page.locator(".continue button").count(), 0);
  },
  "someone who may only watch reads it": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const one = transcript(1);
    stubbed.me.role = "watch";
    stubbed.replies = { [`GET /transcripts/${one.id}`]: shown(() => one, { now: 20 }) };
    await stubbed.reload();
    await openPage(page, one);
    await page.locator(".continue").waitFor();
    assert.equal(await page.locator(".continue .button").count(), 0);
  },
  "one that is gone, and a server that is, are said": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const one = transcript(1, { modified: Date.now() });
    const gone = { status: 404, type: "about:towpath#not-found", title: "not found", detail: "no such transcript" };
    stubbed.replies = { [`GET /transcripts/${one.id}`]: gone };
    await stubbed.show();
    await openPage(page, one);
    await page.getByText("This session is not there any more.").waitFor();
    stubbed.replies = { [`GET /transcripts/${one.id}`]: shown(() => one, { now: 20 }) };
    await page.getByText("Said 20", { exact: true }).waitFor();
    stubbed.replies = { [`GET /transcripts/${one.id}`]: OFFLINE };
    await page.getByText("The server cannot be reached.").waitFor();
    await page.getByText("Said 20", { exact: true }).waitFor();
  },
  "without sessions the page offers those of terminals": async (open) => {
    const stubbed = await open(PHONE);
    const { page } = stubbed;
    stubbed.replies = { "GET /transcripts": transcriptPages([transcript(1)]) };
    stubbed.sessions = [];
    stubbed.sockets.clear();
    await page.goto(stubbed.address.replace(/#.*/, "#/"));
    await page.reload();
    await page.getByRole("button", { name: "Continue one of a terminal" }).click();
    await page.locator(".sidebar.open .other-row", { hasText: "Transcript 1" }).waitFor();
  },
});
