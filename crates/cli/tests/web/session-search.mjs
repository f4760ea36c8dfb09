// The search in all sessions. The API is a stub, so that odd replies come when they should.
import { assert, clean, composer, DESKTOP, PHONE, until } from "./fixture.mjs";
import { item, OFFLINE, session, stubbedSteps, transcript, transcriptPages } from "./stub-api.mjs";

const EVIL = "<img src=x onerror=window.hurt=41><script>window.hurt=42</script>";
const OTHER = "22222222-2222-4222-8222-222222222222";
const field = (page) => page.getByLabel("Search all sessions");
const options = (page) => page.locator("#found [role=option]");
const chosen = (page) => page.locator("#found [aria-selected=true]").textContent();
const result = (more = {}) => ({
  session: OTHER, transcript: null, title: "Another", cwd: "/home/me/shop", at: Date.now() - 3_600_000, role: "assistant", position: null,
  snippet: [{ text: "the canal " , match: false }, { text: "lock", match: true }, { text: " was closed", match: false }], ...more,
});
const found = (results, more = {}) => ({ results, more: null, indexing: null, ...more });
const query = (request) => new URL(request.url()).searchParams;
const said = (n) => item(`<div class="item text"><p>Said ${n}</p></div>`, { id: `said-${n}`, position: [n, 0], turn: Math.ceil(n / 10), first: n, rev: n });
const two = [session(), session({ id: OTHER, title: "Another" })];

await stubbedSteps({
  "results appear as someone types, grouped, with the matches marked": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const file = transcript(7, { title: "Locked out" });
    stubbed.replies = {
      "GET /transcripts": transcriptPages([file]),
      "GET /search": found([result(), result({ session: null, transcript: file.id, title: file.title, role: "user" }), result({ role: "tool" })]),
    };
    await stubbed.show({}, two);
    await composer(page).press("Escape");
    await page.keyboard.press("s");
    await page.keyboard.type("lock");
    await page.locator(".found-text").nth(2).waitFor();
    assert.deepEqual(await page.$$eval(".found-text mark", (all) => all.map((it) => it.textContent)), ["lock", "lock", "lock"]);
    // Both results of a session are together, and a title that matches comes first.
    assert.deepEqual(await page.$$eval("#found > *", (all) => all.map((it) => it.textContent.replace(/\d.*$/s, ""))), [
      "Sessions", "Locked out", "In conversations", "Another", "the canal lock was closed", "Tool:the canal lock was closed", "Locked out", "You:the canal lock was closed",
    ].map((it) => it.replace(/\d.*$/s, "")));
    await clean(page, "results");
    assert.equal(await page.locator(".sidebar nav").isVisible(), false);
    await page.keyboard.press("Escape");
    await page.locator(".sidebar nav").waitFor();
    assert.equal(await field(page).inputValue(), "");
    assert.equal(await composer(page).evaluate((it) => it === document.activeElement), true);
  },
  "only the last text is searched for, and an old reply is dropped": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const asked = [];
    let release;
    stubbed.replies = {
      "GET /search": async (request) => {
        const text = query(request).get("q");
        asked.push(text);
        if (text === "slow") await new Promise((resolve) => (release = resolve));
        return found([result({ snippet: [{ text: `about ${text}`, match: true }] })]);
      },
    };
    await stubbed.show({}, two);
    await field(page).focus();
    await page.locator(".sidebar-search [role=combobox]").waitFor();
    // A busy machine would take longer between keys than the search waits for the next one.
    await field(page).evaluate((it) => {
      for (const text of ["s", "sl", "slo", "slow"]) {
        it.value = text;
        it.dispatchEvent(new Event("input"));
      }
    });
    await until("it is asked", () => asked.length > 0);
    assert.deepEqual(asked, ["slow"], "once for all four keys");
    await field(page).fill("fast");
    await page.getByText("about fast").waitFor();
    release();
    await page.waitForTimeout(300);
    assert.equal(await page.getByText("about slow").count(), 0);
    assert.deepEqual(asked, ["slow", "fast"]);
  },
  "Enter opens the session at the place, and pages until it is there": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const pages = [];
    stubbed.replies = {
      "GET /search": found([result({ session: session().id, position: "12.0", snippet: [{ text: "Said 12", match: true }] }), result({ session: session().id, position: "999.0" })]),
      "GET /items": (request) => {
        const before = Number(query(request).get("before").split(".")[0]);
        pages.push(before);
        const first = Math.max(1, before - Number(query(request).get("limit")));
        return { items: Array.from({ length: before - first }, (_, n) => said(first + n)), turns: [], more: first > 1 };
      },
    };
    await stubbed.show({ more: true, items: Array.from({ length: 40 }, (_, n) => said(961 + n)) });
    await field(page).fill("said");
    await options(page).nth(1).waitFor();
    await field(page).press("Enter");
    // The mark goes away by itself, so it is looked at when it appears.
    const top = await page.waitForFunction(() => {
      const entry = document.querySelector(".entry.found");
      return entry?.textContent.includes("Said 12") && entry.getBoundingClientRect().top;
    });
    assert.ok((await top.jsonValue()) > 60 && (await top.jsonValue()) < 700, `it is in sight: ${await top.jsonValue()}`);
    assert.ok(pages.length <= 6, `${pages.length} requests`);
    assert.equal(await field(page).evaluate((it) => it === document.activeElement), true, "the next result is one key away");
    assert.match(await page.evaluate(() => location.hash), /\/at\/12\.0$/);
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.locator(".entry.found", { hasText: "Said 999" }).waitFor();
    // The same place can be gone to again.
    await page.locator(".entry.found").waitFor({ state: "detached" });
    await page.keyboard.press("Enter");
    await page.locator(".entry.found", { hasText: "Said 999" }).waitFor();
  },
  "a place in a session of the CLI is gone to as well, also from its address": async (open) => {
    const stubbed = await open(PHONE);
    const { page } = stubbed;
    const one = transcript(1);
    stubbed.replies = {
      "GET /search": found([result({ session: null, transcript: one.id, position: "30.2" })]),
      [`GET /transcripts/${one.id}`]: (request) => {
        const before = Number(query(request).get("before")?.split(".")[0] ?? 301);
        const first = Math.max(1, before - Number(query(request).get("limit") ?? 50));
        return { transcript: one, page: { items: Array.from({ length: before - first }, (_, n) => said(first + n)), turns: [], more: first > 1 } };
      },
    };
    await stubbed.show();
    await page.getByRole("button", { name: "Sessions", exact: true }).click();
    await field(page).fill("canal");
    await options(page).first().click();
    await page.locator(".entry.found", { hasText: "Said 30" }).waitFor();
    assert.equal(await page.locator(".sidebar").isVisible(), false, "the drawer is closed");
    await page.reload();
    await page.locator(".entry.found", { hasText: "Said 30" }).waitFor();
  },
  "hostile, long and right-to-left texts stay text": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const texts = [EVIL, "x".repeat(50_000), "\u202egnp.exe", "עברית", "word ".repeat(2000)];
    stubbed.replies = { "GET /search": found(texts.map((text, n) => result({ session: OTHER.replace("2222", `222${n}`), title: text, cwd: `/home/${text.replaceAll("/", "")}`, snippet: [{ text, match: n % 2 === 0 }, { text, match: n % 2 === 1 }] }))) };
    await stubbed.show();
    await field(page).fill(EVIL);
    await page.locator(".found-text").nth(3).waitFor();
    assert.ok((await page.locator(".found-text").first().textContent()).includes(EVIL));
    assert.equal(await page.evaluate(() => window.hurt), undefined, "nothing ran");
    assert.equal(await page.locator("#app script, #app [onerror], #app img[src=x]").count(), 0);
    const wide = await page.$$eval("#found > *", (all) => all.filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.textContent.slice(0, 40)));
    assert.deepEqual(wide, []);
    assert.ok((await page.locator("#found").textContent()).length < 20_000, "no more than can be seen");
  },
  "an index that is being built is said, and asked again": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    let ready = false;
    stubbed.replies = { "GET /search": () => (ready ? found([result()]) : found([], { indexing: { done: 120, total: 5000 } })) };
    await stubbed.show({}, two);
    await field(page).fill("canal");
    await page.getByText("Still reading conversations: 120 of 5000. Nothing was found.").waitFor();
    ready = true;
    await page.locator(".found-text").waitFor();
    assert.equal(await page.locator(".found-status").textContent(), "");
  },
  "a search that finds little in its time goes on by itself": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const asked = [];
    stubbed.replies = {
      "GET /search": (request) => {
        const after = query(request).get("after");
        asked.push(after);
        return asked.length < 5 ? found([], { more: String(asked.length) }) : found([result()], { more: null });
      },
    };
    await stubbed.show({}, two);
    await field(page).fill("canal");
    await page.locator(".found-text").waitFor();
    assert.deepEqual(asked, [null, "1", "2", "3", "4"]);
    assert.equal(await page.locator(".found-status").textContent(), "");
  },
  "nothing found, an error and no server are said": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    await stubbed.show();
    await field(page).fill("nowhere");
    await page.getByText("Nothing was found.").waitFor();
    stubbed.replies = { "GET /search": { status: 400, type: "about:towpath#invalid", title: "invalid", detail: "a quote is not closed" } };
    await field(page).fill('"open');
    await page.getByText("a quote is not closed").waitFor();
    stubbed.replies = { "GET /search": OFFLINE };
    await field(page).fill("canal");
    await page.getByText("The server cannot be reached.").waitFor();
    await clean(page, "no server");
    stubbed.replies = { "GET /search": found([result()]) };
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator(".found-text").waitFor();
    await field(page).fill("");
    await page.locator(".sidebar nav").waitFor();
    assert.equal(await field(page).evaluate((it) => it === document.activeElement), true);
  },
  "many results come page by page, and many titles on request": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const all = Array.from({ length: 1000 }, (_, n) => transcript(n, { title: `Canal ${n}` }));
    stubbed.replies = {
      "GET /transcripts": transcriptPages(all),
      "GET /search": (request) => {
        const from = Number(query(request).get("after") ?? 0);
        return found(Array.from({ length: 30 }, (_, n) => result({ position: `${from + n}.0`, snippet: [{ text: `hit ${from + n}`, match: true }] })), { more: from < 60 ? String(from + 30) : null });
      },
    };
    await stubbed.show({}, two);
    await field(page).fill("canal");
    await page.getByText("Show all 1000").waitFor();
    for (let n = 0; n < 5; n += 1) await field(page).press("ArrowDown");
    assert.equal(await chosen(page), "Show all 1000");
    await field(page).press("Enter");
    await page.locator("#found [role=option]", { hasText: "Canal 9" }).first().waitFor();
    assert.ok((await options(page).count()) < 40);
    await field(page).fill("canals");
    await page.getByText("hit 0", { exact: true }).waitFor();
    for (const page_ of [60, 90]) {
      await page.evaluate(() => (document.querySelector(".sidebar-list:not([hidden])").scrollTop = 1e6));
      await page.getByText("Show more").click();
      await page.waitForFunction((count) => document.querySelector("#found").clientHeight > count * 60, page_);
    }
    await page.evaluate(() => (document.querySelector(".sidebar-list:not([hidden])").scrollTop = 1e6));
    await page.getByText("hit 89", { exact: true }).waitFor();
    assert.equal(await page.getByText("Show more").count(), 0);
    assert.ok((await options(page).count()) < 40);
  },
  "the switcher leads to the search": async (open) => {
    const stubbed = await open(PHONE);
    const { page } = stubbed;
    stubbed.replies = { "GET /search": found([result()]) };
    await stubbed.show({}, two);
    await page.keyboard.press("Control+k");
    await page.getByRole("dialog", { name: "Go to a session" }).waitFor();
    await page.keyboard.type("canal");
    await page.keyboard.press("Enter");
    await page.locator(".sidebar.open .found-text").waitFor();
    assert.equal(await field(page).inputValue(), "canal");
    await page.getByRole("option", { name: /the canal/ }).click();
    await page.keyboard.press("Control+Shift+F");
    await page.locator(".sidebar.open .found-text").waitFor();
    assert.equal(await field(page).evaluate((it) => it === document.activeElement), true);
  },
});
