import { agree, assert, DESKTOP, idle, PHONE, say, shown, steps, until } from "./fixture.mjs";

const reached = (page, word) => page.waitForFunction((word) => new RegExp(`${word}\\b`).test(document.querySelector(".log")?.textContent ?? ""), word);
const once = async (page) => {
  const words = (await shown(page)).join(" ").match(/\bw\d+\b/g) ?? [];
  assert.deepEqual(words, Array.from({ length: 240 }, (_, n) => `w${n + 1}`), "every word once and in order");
};

await steps({ steps: {
  "a reload in mid-stream": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    await say(page, "tell the long story");
    for (const word of ["w20", "w80", "w140"]) {
      await reached(page, word);
      await page.reload();
    }
    await reached(page, "w240");
    await idle(page);
    await once(page);
    await agree(server, page, session);
  },
  "two tabs, one of which comes late": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    await say(page, "tell the long story");
    await reached(page, "w30");
    const other = await screen.page(PHONE, session);
    for (const one of [page, other]) {
      await reached(one, "w240");
      await idle(one);
      await once(one);
      await agree(server, one, session);
    }
  },
  "a network that is away for a while": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    await say(page, "tell the long story");
    await reached(page, "w30");
    await page.context().setOffline(true);
    await page.waitForFunction(() => !document.querySelector(".banner")?.hidden);
    assert.match(await page.textContent(".banner"), /Connection lost/);
    assert.match(await page.textContent(".status .doing"), /Not connected/);
    await until("the agent is done meanwhile", async () => (await server.texts(session)).length === 1);
    assert.ok(!(await page.textContent(".log")).includes("w240"), "nothing comes while it is away");
    await page.context().setOffline(false);
    await reached(page, "w240");
    await idle(page);
    await once(page);
    await agree(server, page, session);
    assert.equal(await page.locator(".banner").isVisible(), false);
  },
  "a prompt that is sent while the network is away stays in the field": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    await page.context().setOffline(true);
    await say(page, "tell the short story");
    await page.waitForFunction(() => /Not sent/.test(document.querySelector(".toasts")?.textContent ?? ""));
    await until("the words are back", async () => (await page.locator(".composer textarea").inputValue()) === "tell the short story");
    await page.context().setOffline(false);
    await page.waitForFunction(() => document.querySelector(".banner")?.hidden);
    await page.locator(".composer textarea").press("Enter");
    await reached(page, "w60");
    await idle(page);
    assert.equal(await server.given(session, "tell the short story"), 1);
  },
  "a server that is killed in mid-turn and comes back": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    await say(page, "tell the long story");
    await reached(page, "w40");
    const again = await server.crash();
    await page.waitForFunction(() => !document.querySelector(".banner")?.hidden);
    await again();
    await reached(page, "w240");
    await idle(page);
    await once(page);
    await agree(server, page, session);
    assert.equal(await server.given(session, "long story"), 1);
    assert.equal((await shown(page)).length, 1);
    await say(page, "and hello");
    await reached(page, "heard");
  },
} });
