import { writeFileSync, rmSync, existsSync } from "node:fs";
import { join } from "node:path";
import { agree, assert, composer, DESKTOP, idle, say, steps, until } from "./fixture.mjs";

const waiting = (page) => page.locator(".queued-prompts li");
const says = (page, words) => page.waitForFunction((words) => document.querySelector(".log")?.textContent?.includes(words), words);

/** A session whose agent waits at a gate until it is opened. */
async function held(server, screen, gate) {
  for (const name of [gate, `began-${gate}`]) rmSync(join(server.project, name), { force: true });
  const session = await server.session({ allowed_tools: ["Bash"] });
  const page = await screen.page(DESKTOP, session);
  await say(page, `wait at the ${gate}`);
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
  "Esc stops the turn, and what waits is kept": async (server, screen) => {
    const { session, page } = await held(server, screen, "gate");
    await composer(page).fill("hello after that");
    await composer(page).press("Control+Enter");
    await waiting(page).filter({ hasText: "hello after that" }).waitFor();
    await composer(page).press("Escape");
    await page.waitForFunction(() => /interrupted/i.test(document.querySelector(".log")?.textContent ?? ""));
    await says(page, "I heard you.");
    await idle(page);
    assert.equal(await server.given(session, "hello after that"), 1);
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
