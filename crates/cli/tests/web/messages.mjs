import { assert, agree, composer, DESKTOP, idle, PHONE, say, shown, steps, until } from "./fixture.mjs";

await steps({ steps: {
  "words are on the screen before the agent is done": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    await say(page, "tell the long story");
    await page.waitForFunction(() => /w5\b/.test(document.querySelector(".log")?.textContent ?? ""));
    assert.ok(!(await page.textContent(".log")).includes("w240"), "the end is not there yet");
    assert.equal(await composer(page).isEnabled(), true);
    await page.waitForFunction(() => document.querySelector(".log")?.textContent?.includes("w240"));
    await idle(page);
    await agree(server, page, session);
    assert.equal(await page.locator(".entry > .item.prompt").count(), 1);
  },
  "markdown is shown as such": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    await say(page, "say it in Markdown");
    await page.waitForSelector(".item.text table");
    await idle(page);
    assert.equal(await page.locator(".item.text strong").first().textContent(), "strong");
    assert.equal(await page.locator(".item.text h2").count(), 1);
    await page.locator(".item.text pre.code").hover();
    assert.equal(await page.locator(".item.text .copy").count(), 1);
  },
  "on a phone Enter is a new line and the button sends": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(PHONE, session);
    await composer(page).tap();
    await page.keyboard.type("tell the");
    await page.keyboard.press("Enter");
    await page.keyboard.type("short story");
    assert.equal(await composer(page).inputValue(), "tell the\nshort story");
    await page.locator(".send").tap();
    await page.waitForFunction(() => document.querySelector(".log")?.textContent?.includes("w60"));
    await agree(server, page, session);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `nothing sticks out of the screen, but ${wide} px do`);
  },
  "a session is created in the dialog and is in the sidebar": async (server, screen) => {
    const page = await screen.page(DESKTOP);
    await page.getByRole("button", { name: "New session" }).first().click();
    const dialog = page.getByRole("dialog", { name: "New session" });
    await dialog.getByLabel("Directory", { exact: true }).fill(server.project);
    await dialog.getByLabel("First message").fill("tell the short story");
    await dialog.getByRole("button", { name: "Create" }).click();
    await page.waitForFunction(() => document.querySelector(".log")?.textContent?.includes("w60"));
    await page.waitForSelector(".row[aria-current=page]");
  },
  "a draft outlives a reload, and ↑ brings the last prompt back": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    await composer(page).fill("half a thought");
    await page.reload();
    await until("the draft is back", async () => (await composer(page).inputValue().catch(() => "")) === "half a thought");
    await say(page, "tell the short story");
    await idle(page);
    await page.waitForFunction(() => document.querySelector(".log")?.textContent?.includes("w60"));
    await composer(page).press("ArrowUp");
    assert.equal(await composer(page).inputValue(), "tell the short story");
  },
  "menus offer commands and files": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    await composer(page).pressSequentially("/comp");
    await page.waitForSelector("#completion [role=option]");
    assert.match(await page.locator("#completion [role=option]").first().textContent(), /\/compact/);
    await composer(page).press("Escape");
    await server.ask("POST", `/sessions/${session}/prompts`, { id: crypto.randomUUID(), text: "hello" });
    await page.waitForFunction(() => document.querySelector(".log")?.textContent?.includes("I heard you."));
    assert.equal((await shown(page)).length, 1);
  },
  "older pages come as the reader scrolls up, and what they read stays where it is": async (server, screen) => {
    const page = await screen.page(DESKTOP);
    const session = await server.session({ allowed_tools: ["Bash"] });
    for (let n = 1; n <= 14; n += 1) await server.prompt(session, `a flood, number ${n}.`);
    await until("all are over", async () => (await server.texts(session)).length === 14, 40_000);
    let let_go;
    const asked = new Promise((resolve) => void page.route("**/items?*", async (route) => {
      resolve();
      await new Promise((go) => (let_go = go));
      await route.continue();
    }, { times: 1 }));
    await screen.show(page, session);
    await page.waitForFunction(() => document.querySelector(".log")?.textContent?.includes("number 14."));
    const prompts = () => page.locator(".entry > .item.prompt").count();
    const before = await prompts();
    assert.ok(before < 14, "the newest come first");
    await page.evaluate(() => scrollTo(0, 200));
    await asked;
    await page.waitForSelector(".new-pill:not([hidden])");
    const place = (id) => page.evaluate((id) => {
      const all = [...document.querySelectorAll(".entry")].filter((it) => it.getBoundingClientRect().height > 0);
      const entry = id ? all.find((it) => it.dataset.id === id) : all.find((it) => it.getBoundingClientRect().bottom > 60);
      return { id: entry.dataset.id, top: Math.round(entry.getBoundingClientRect().top) };
    }, id);
    const seen = await place();
    let_go();
    await until("older ones are there", async () => (await prompts()) > before);
    assert.deepEqual(await place(seen.id), seen, "the reader stays");
    await until("all of them are there", async () => {
      await page.evaluate(() => scrollTo(0, 0));
      return (await prompts()) === 14;
    });
    const order = await page.$$eval(".entry > .item.prompt .words", (all) => all.map((it) => Number(/number (\d+)/.exec(it.textContent)[1])));
    assert.deepEqual(order, Array.from({ length: 14 }, (_, n) => n + 1));
  },
  "a picture is pasted and goes with the prompt": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    await composer(page).focus();
    await page.evaluate(async () => {
      const canvas = new OffscreenCanvas(40, 30);
      const pen = canvas.getContext("2d");
      pen.fillStyle = "teal";
      pen.fillRect(0, 0, 40, 30);
      const file = new File([await canvas.convertToBlob({ type: "image/png" })], "teal.png", { type: "image/png" });
      const data = new DataTransfer();
      data.items.add(file);
      document.querySelector(".composer textarea").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    });
    await page.waitForSelector(".pictures .picture img");
    await say(page, "look at this");
    await page.waitForFunction(() => document.querySelector(".log")?.textContent?.includes("I saw the picture."));
    assert.equal(await page.locator(".pictures .picture").count(), 0);
    const lines = await server.lines(session);
    assert.ok(lines.some((line) => line.value.type === "user" && JSON.stringify(line.value).includes('"image"')), "the agent got it");
  },
} });
