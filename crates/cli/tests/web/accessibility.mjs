import { assert, clean, composer, DESKTOP, idle, PHONE, say, steps, until } from "./fixture.mjs";

await steps({ options: { demo: true }, steps: {
  "the first load is small": async (server, screen) => {
    const context = await screen.browser.newContext({ ...DESKTOP, serviceWorkers: "block" });
    const page = await context.newPage();
    await page.goto(`${server.address}/#token=${encodeURIComponent(server.token)}`);
    await page.waitForSelector(".composer");
    await page.waitForLoadState("networkidle");
    const [bytes, compressed] = await page.evaluate(() => {
      const files = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].filter((it) => !it.name.includes("/api/"));
      return ["decodedBodySize", "encodedBodySize"].map((size) => files.reduce((sum, it) => sum + it[size], 0));
    });
    console.log(`  first load: ${Math.round(bytes / 1000)} KB, compressed ${Math.round(compressed / 1000)} KB`);
    assert.ok(bytes <= 150_000, `${bytes} bytes`);
    assert.ok(compressed <= 50_000, `${compressed} bytes compressed`);
    await context.close();
  },
  "the sign-in form": async (server, screen) => {
    const context = await screen.browser.newContext(DESKTOP);
    const page = await context.newPage();
    await page.goto(server.address);
    await page.waitForSelector(".sign-in");
    await clean(page, "sign-in");
    await page.getByLabel("Access token").fill("wrong");
    await page.keyboard.press("Enter");
    await until("it is refused", async () => (await page.textContent(".form-error")) !== "");
    await page.getByLabel("Access token").fill(server.token);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".sidebar");
    await context.close();
  },
  "a tour that shows every card": async (server, screen) => {
    for (const kind of [DESKTOP, PHONE]) {
      const page = await screen.page(kind);
      const session = await server.session();
      await screen.show(page, session);
      await clean(page, "a new session");
      await page.getByRole("button", { name: "Give me a tour" }).click();
      const met = new Set();
      for (;;) {
        await page.waitForFunction(() => document.querySelector("section.request") || document.querySelector(".status .doing")?.textContent?.startsWith("Ready"));
        const card = page.locator("section.request");
        const kindOfCard = await card.getAttribute("data-kind", { timeout: 500 }).catch(() => null);
        if (!kindOfCard) {
          if ((await page.textContent(".log")).includes("the end of the tour")) break;
          continue;
        }
        const id = await card.getAttribute("data-request");
        if (!met.has(kindOfCard)) await clean(page, kindOfCard);
        met.add(kindOfCard);
        if (kindOfCard === "permission") await card.getByRole("button", { name: /Allow once/ }).click();
        else if (kindOfCard === "plan") await card.getByRole("button", { name: /Accept edits/ }).click();
        else {
          await card.locator(".choice").first().click();
          await card.locator(".choice").nth(1).click();
          await card.getByRole("button", { name: "Answer" }).click();
        }
        await page.waitForFunction((id) => document.querySelector("section.request")?.dataset.request !== id, id);
      }
      assert.deepEqual([...met].sort(), ["permission", "plan", "question"]);
      await idle(page);
      await clean(page, "the end of the tour");
      assert.ok((await page.locator(".item.call.agent .children .entry").count()) > 1, "a sub-agent's work is inside its call");
      if (kind === DESKTOP) {
        await page.getByRole("button", { name: "Side by side" }).first().click();
        assert.equal(await page.locator(".diff.split .side").count(), 2);
      }
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${wide} px stick out`);
      await page.context().close();
    }
  },
  "dialogs, by key": async (server, screen) => {
    const page = await screen.page(DESKTOP);
    await page.waitForSelector(".composer");
    await composer(page).press("Escape");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
    await clean(page, "keys");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+k");
    await page.getByRole("dialog", { name: "Go to a session" }).waitFor();
    await clean(page, "switcher");
    await page.keyboard.type("give me");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector(".bar h1")?.textContent === "Give me a tour" && document.querySelector(".log table"));
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByLabel("Theme").selectOption("dark");
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
    await clean(page, "settings");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "New session" }).first().click();
    await page.getByRole("dialog", { name: "New session" }).waitFor();
    await clean(page, "new session");
    await page.keyboard.press("Escape");
    await page.keyboard.press("f");
    await page.getByLabel("Find in this conversation", { exact: true }).fill("tour");
    await page.waitForFunction(() => /of/.test(document.querySelector(".search output")?.textContent ?? ""));
  },
  "the page opens without the server, and says so": async (server, screen) => {
    const page = await screen.page(DESKTOP);
    await page.waitForSelector(".composer");
    await until("the shell is kept", () => page.evaluate(async () => Boolean(await caches.match("/js/dialogs/sign-in.js")) && Boolean(await caches.match("/js/session-page.js")) && Boolean(await caches.match("/"))));
    await page.context().setOffline(true);
    await page.reload();
    await until("it is written", async () => /cannot be reached/.test((await page.textContent(".form-error").catch(() => "")) ?? ""));
    await page.context().setOffline(false);
    await page.waitForSelector(".composer");
    assert.ok(!(await page.evaluate(async () => (await (await caches.open("towpath-shell")).keys()).some((it) => it.url.includes("/api/")))), "nothing of a session is kept");
  },
  "a token is made, opens the page, and opens nothing when it is revoked": async (server, screen) => {
    const page = await screen.page(DESKTOP);
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByRole("button", { name: "Manage: Access tokens" }).click();
    const dialog = page.getByRole("dialog", { name: "Access tokens" });
    await dialog.locator("[data-token=link]").waitFor();
    await dialog.getByLabel("Name").fill("phone");
    await dialog.getByLabel("Role").selectOption("watch");
    await dialog.getByLabel("Name").press("Enter");
    const link = await dialog.getByLabel("Sign-in link", { exact: true }).inputValue();
    assert.match(link, /\/#token=.{20,}/);
    await dialog.locator("[data-token=phone]").waitFor();
    await clean(page, "tokens");
    await dialog.getByLabel("Name").fill("phone");
    await dialog.getByRole("button", { name: "Create token" }).click();
    await until("a second one of that name is refused", async () => /a token with that name exists/.test((await dialog.locator(".form-error").textContent()) ?? ""));
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByRole("button", { name: "Manage: Access tokens" }).click();
    await dialog.locator("[data-token=phone]").waitFor();
    assert.doesNotMatch(await page.evaluate(() => document.body.innerHTML), new RegExp(link.split("token=")[1]), "it is shown once");
    const context = await screen.browser.newContext(PHONE);
    const other = await context.newPage();
    await other.goto(link);
    await other.waitForSelector(".log", { state: "attached" });
    assert.equal(await composer(other).isVisible(), false, "who watches has nothing to write in");
    await other.getByRole("button", { name: "Sessions" }).tap();
    await other.getByRole("button", { name: "Settings" }).tap();
    assert.equal(await other.getByRole("button", { name: "Manage: Access tokens" }).count(), 0);
    await dialog.getByRole("button", { name: "Revoke phone" }).click();
    await page.getByRole("dialog", { name: "Revoke phone?" }).getByRole("button", { name: "Revoke" }).click();
    await dialog.locator("[data-token=phone]").waitFor({ state: "detached" });
    // Its connections end by themselves, and the page finds that it is signed out.
    await other.waitForSelector(".sign-in");
    await context.close();
  },
  "usage": async (server, screen) => {
    const page = await screen.page(DESKTOP);
    await page.goto(`${server.address}/#/usage`);
    await page.waitForSelector(".usage svg rect");
    await clean(page, "usage");
  },
  "the sidebar on a phone": async (server, screen) => {
    const page = await screen.page(PHONE);
    await page.waitForSelector(".composer");
    assert.equal(await page.locator(".sidebar").isVisible(), false);
    await page.getByRole("button", { name: "Sessions" }).tap();
    await page.locator(".sidebar .row").first().waitFor();
    await clean(page, "drawer");
    const size = await composer(page).evaluate((it) => parseFloat(getComputedStyle(it).fontSize));
    assert.ok(size >= 16, "a phone does not zoom in on it");
  },
  "a reader who scrolled up stays where they are": async (server, screen) => {
    const page = await screen.page(DESKTOP);
    const session = await server.session();
    await screen.show(page, session);
    await say(page, "show me markdown");
    await page.waitForFunction(() => document.querySelector(".status .doing")?.textContent?.startsWith("Ready") && document.querySelector(".log blockquote"));
    await say(page, "something long");
    await page.waitForFunction(() => document.documentElement.scrollHeight > innerHeight + 300);
    await page.evaluate(() => scrollTo(0, 0));
    await page.waitForSelector(".new-pill:not([hidden])");
    const top = await page.evaluate(() => document.querySelector(".entry").getBoundingClientRect().top);
    await idle(page);
    assert.equal(await page.evaluate(() => document.querySelector(".entry").getBoundingClientRect().top), top);
    await page.locator(".new-pill").click();
    await page.waitForFunction(() => document.documentElement.scrollHeight - innerHeight - scrollY < 60);
    await page.waitForSelector(".new-pill", { state: "hidden" });
  },
} });
