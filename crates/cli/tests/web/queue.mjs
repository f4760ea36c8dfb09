import { writeFileSync, rmSync, existsSync } from "node:fs";
import { join } from "node:path";
import { agree, assert, clean, composer, DESKTOP, idle, PHONE, say, steps, until } from "./fixture.mjs";

const waiting = (page) => page.locator(".queued-prompts li");
const says = (page, words) => page.waitForFunction((words) => document.querySelector(".log")?.textContent?.includes(words), words);

/** A session whose agent waits at a gate until it is opened. */
async function held(server, screen, gate, kind = DESKTOP) {
  for (const name of [gate, `began-${gate}`]) rmSync(join(server.project, name), { force: true });
  const session = await server.session({ allowed_tools: ["Bash"] });
  const page = await screen.page(kind, session);
  if (kind === DESKTOP) await say(page, `wait at the ${gate}`);
  else await server.prompt(session, `wait at the ${gate}`);
  await until("the tool runs", () => existsSync(join(server.project, `began-${gate}`)));
  return { session, page, open: () => writeFileSync(join(server.project, gate), "") };
}

await steps({ steps: {
  "prompts wait for the turn's end, and are changed, moved and taken back": async (server, screen) => {
    const { session, page, open } = await held(server, screen, "gate");
    for (const words of ["first", "second", "third"]) {
      await composer(page).fill(words);
      await composer(page).press("Control+Enter");
      await waiting(page).filter({ hasText: words }).waitFor();
    }
    await waiting(page).filter({ hasText: "third" }).getByRole("button", { name: "Move up" }).click();
    await until("it is moved", async () => (await waiting(page).allTextContents()).join().match(/first.*third.*second/s));
    await waiting(page).filter({ hasText: "second" }).getByRole("button", { name: "Remove" }).click();
    await until("it is gone", async () => (await waiting(page).count()) === 2);
    await composer(page).press("ArrowUp");
    await composer(page).fill("third, but better");
    await composer(page).press("Enter");
    await waiting(page).filter({ hasText: "third, but better" }).waitFor();
    open();
    await until("both were answered", async () => (await server.texts(session)).length === 3);
    await idle(page);
    assert.equal(await waiting(page).count(), 0);
    assert.deepEqual(await page.$$eval(".entry > .item.prompt .words", (all) => all.map((it) => it.textContent)), ["wait at the gate", "first", "third, but better"]);
    await agree(server, page, session);
    for (const words of ["first", "third, but better"]) assert.equal(await server.given(session, words), 1);
  },
  "what is sent with Enter joins the running turn": async (server, screen) => {
    const { session, page, open } = await held(server, screen, "lock");
    await say(page, "bring tea");
    await waiting(page).or(page.locator(".entry > .item.prompt").filter({ hasText: "bring tea" })).first().waitFor();
    open();
    await says(page, "I heard you.");
    await idle(page);
    assert.equal((await server.texts(session)).length, 1, "one turn answers both");
    assert.equal(await page.locator("section.turn:has(.item.prompt)").count(), 1);
    assert.equal(await server.given(session, "bring tea"), 1);
  },
  "a waiting prompt is steered into the turn": async (server, screen) => {
    const { session, page, open } = await held(server, screen, "lock");
    await composer(page).fill("bring tea");
    await composer(page).press("Control+Enter");
    await waiting(page).filter({ hasText: "bring tea" }).getByRole("button", { name: "Send now" }).click();
    await until("it joins", async () => (await waiting(page).filter({ hasText: "after this turn" }).count()) === 0);
    open();
    await says(page, "I heard you.");
    await idle(page);
    assert.equal((await server.texts(session)).length, 1);
    assert.equal(await page.locator("section.turn:has(.item.prompt)").count(), 1);
  },
  "Esc stops the turn and holds the queue, which one key resumes": async (server, screen) => {
    // Outside of the field, in the empty field, and with the button.
    const resume = {
      "the key": async (page) => { await composer(page).press("Escape"); await page.keyboard.press("r"); },
      "Enter in the empty field": (page) => composer(page).press("Enter"),
      "the button": (page) => page.locator(".queue-held").getByRole("button", { name: /Resume/ }).click(),
    };
    for (const [how, act] of Object.entries(resume)) {
      const { session, page } = await held(server, screen, "gate");
      await composer(page).fill("hello after that");
      await composer(page).press("Control+Enter");
      await waiting(page).filter({ hasText: "hello after that" }).waitFor();
      // More of them than needed change nothing.
      for (let n = 0; n < 3; n += 1) await composer(page).press("Escape");
      await page.waitForFunction(() => /interrupted/i.test(document.querySelector(".log")?.textContent ?? ""));
      await page.locator(".queue-held").filter({ hasText: "1 queued prompt waits" }).waitFor();
      await idle(page);
      assert.equal(await waiting(page).count(), 1, "it is still queued");
      assert.equal(await server.given(session, "hello after that"), 0, how);
      const starts = (await server.lines(session)).filter((line) => line.value.subtype === "init").length;
      await act(page);
      await says(page, "I heard you.");
      await idle(page);
      assert.equal(await server.given(session, "hello after that"), 1, how);
      assert.equal(await page.locator(".queue-held").isVisible(), false);
      // The turn's own start is announced again; a killed agent would have been started anew.
      assert.ok((await server.lines(session)).filter((line) => line.value.subtype === "init").length <= starts + 1, how);
      assert.equal(await page.locator(".log .note.error").count(), 0, "the agent was not killed");
    }
  },
  "a spent budget asks, and only its button goes on": async (server, screen) => {
    const session = await server.session({ budget_usd: 0.000_001 });
    const page = await screen.page(DESKTOP, session);
    await say(page, "first");
    await until("it was answered", async () => (await server.texts(session)).length === 1);
    await idle(page);
    await say(page, "second");
    const question = page.locator(".queue-held").filter({ hasText: /^\$[\d.]+ of \$[\d.]+ spent\. Go on\? 1 queued prompt waits\./ });
    await question.waitFor();
    await waiting(page).filter({ hasText: "second" }).waitFor();
    await clean(page, "a spent budget");
    await composer(page).press("Enter");
    await page.keyboard.press("Escape");
    await page.keyboard.press("r");
    await say(page, "third");
    await page.locator(".queue-held").filter({ hasText: "2 queued prompts wait" }).waitFor();
    await page.locator(".queue-held").getByRole("button", { name: "Go on" }).dblclick();
    await until("one more was answered", async () => (await server.texts(session)).length === 2);
    await says(page, "more");
    await page.locator(".queue-held").filter({ hasText: "1 queued prompt waits" }).waitFor();
  },
  "a message sent while the queue is held goes on with it": async (server, screen) => {
    const { session, page } = await held(server, screen, "gate");
    await composer(page).fill("hello first");
    await composer(page).press("Control+Enter");
    await waiting(page).filter({ hasText: "hello first" }).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.locator(".queue-held:not([hidden])").waitFor();
    await say(page, "hello second");
    await until("both were answered", async () => (await server.texts(session)).filter((it) => it === "I heard you.").length === 2);
    assert.deepEqual((await page.$$eval(".entry > .item.prompt .words", (all) => all.map((it) => it.textContent))).slice(1), ["hello first", "hello second"]);
  },
  "what Enter does while a turn runs is one visible choice, which is remembered, on a phone too": async (server, screen) => {
    for (const kind of [DESKTOP, PHONE]) {
      const { page, session } = await held(server, screen, "gate", kind);
      const choice = (name) => page.getByRole("radiogroup", { name: "While a turn runs" }).getByRole("radio", { name });
      await until("now is the first choice", async () => (await choice("Send now").getAttribute("aria-checked")) === "true");
      await choice("Queue").click();
      await page.reload();
      await until("it is remembered", async () => (await choice("Queue").getAttribute("aria-checked").catch(() => "")) === "true");
      await composer(page).fill("later");
      if (kind === PHONE) await page.locator(".send").tap();
      else await composer(page).press("Enter");
      await waiting(page).filter({ hasText: "later" }).waitFor();
      assert.deepEqual((await server.ask("GET", `/sessions/${session}`)).turn, 1);
      if (kind === DESKTOP) {
        // The other key does the other thing, and the keyboard chooses.
        await composer(page).fill("bring tea");
        await composer(page).press("Control+Enter");
        await until("it joins the turn", async () => (await waiting(page).filter({ hasText: "bring tea" }).filter({ hasText: "after this turn" }).count()) === 0);
        await choice("Queue").focus();
        await page.keyboard.press("ArrowLeft");
        await until("it is chosen", async () => (await choice("Send now").getAttribute("aria-checked")) === "true");
      }
      writeFileSync(join(server.project, "gate"), "");
      await idle(page);
      assert.equal(await page.getByRole("radiogroup", { name: "While a turn runs" }).count(), 0, "an idle agent gets it at once");
      await page.context().close();
    }
  },
  "the stop button stops": async (server, screen) => {
    const { page } = await held(server, screen, "gate");
    await page.getByRole("button", { name: "Stop" }).click();
    await idle(page);
    assert.equal(await page.getByRole("button", { name: "Stop" }).isVisible(), false);
  },
  "Shift+Tab goes through the modes": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    const mode = (name) => page.waitForFunction((name) => document.querySelector(".status .chip-button")?.textContent === name, name);
    await mode("Ask");
    await composer(page).press("Shift+Tab");
    await mode("Accept edits");
    await composer(page).press("Shift+Tab");
    await mode("Plan");
  },
} });
