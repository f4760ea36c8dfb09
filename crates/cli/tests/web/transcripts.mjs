// Sessions of the CLI from real session files: a thousand of them, one that grows, one that a terminal
// uses; read, searched, forked and continued.
import { spawn } from "node:child_process";
import { appendFileSync, chmodSync, mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, composer, DESKTOP, PHONE, say, steps, until } from "./fixture.mjs";

const { SCRATCH } = process.env;
const COUNT = 1000;
const EVIL = "<img src=x onerror=window.hurt=41><script>window.hurt=42</script>";
const id = (n) => `0f0c5d2e-58d1-4d1c-9f6c-${String(n).padStart(12, "0")}`;

/** One line of a session file. */
function line(session, cwd, n, text) {
  const role = n % 2 ? "assistant" : "user";
  const uuid = (n) => `1f0c5d2e-58d1-4d1c-9f6c-${String(n).padStart(12, "0")}`;
  const message = { id: `m${n}`, role, content: [{ type: "text", text }] };
  return `${JSON.stringify({ type: role, uuid: uuid(n), parentUuid: n ? uuid(n - 1) : null, isSidechain: false, sessionId: session, cwd, gitBranch: "main", timestamp: new Date(Date.UTC(2026, 0, 1) + n * 1000).toISOString(), message })}\n`;
}

/** Writes a session file. Returns a function that adds to it. */
function write(server, n, texts, directory, title) {
  mkdirSync(directory, { recursive: true });
  const cwd = realpathSync(directory);
  // The built-in agent has a home of its own.
  const folder = join(SCRATCH, "data/demo-home/.claude/projects", cwd.replaceAll(/[^a-zA-Z0-9]/g, "-"));
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${id(n)}.jsonl`);
  writeFileSync(path, texts.map((text, at) => line(id(n), cwd, at, text)).join("") + (title ? `${JSON.stringify({ type: "custom-title", customTitle: title, sessionId: id(n) })}\n` : ""));
  let count = texts.length;
  return (text) => appendFileSync(path, line(id(n), cwd, count++, text));
}

const openList = (page) => page.locator("button.tier[aria-expanded=false]", { hasText: "Other sessions" }).click();
const show = async (page, n) => {
  await page.evaluate((id) => (location.hash = `#/t/${id}`), id(n));
  await page.locator(".continue").waitFor();
};

let grow;
await steps({ steps: {
  "a thousand are listed, with hostile and long titles": async (server, screen) => {
    for (let n = 0; n < COUNT; n += 1) write(server, n, [`Question ${n}`, `Answer ${n}`], join(server.project, `part-${n % 3}`), { 3: EVIL, 4: "x".repeat(5000) }[n]);
    grow = write(server, COUNT, Array.from({ length: 500 }, (_, n) => `Line ${n} of a long talk about locks`), join(server.project, "canal"));
    const page = await screen.page(DESKTOP);
    await openList(page);
    await page.waitForFunction(() => [...document.querySelectorAll(".project-row .since")].reduce((sum, it) => sum + Number(it.textContent), 0) === 1001);
    await page.locator(".project-row", { hasText: "part-0" }).click();
    await page.locator(".other-row").first().waitFor();
    assert.ok((await page.locator(".other-row").count()) < 40);
    await page.getByLabel("Search all sessions").fill("onerror");
    // Results are drawn again while the index grows, which may swallow a click.
    const found = page.locator("#found [role=option]", { hasText: EVIL }).first();
    const title = page.locator(".bar h1", { hasText: EVIL });
    await until("it is opened", async () => {
      if (!(await title.isVisible()) && (await found.isVisible())) await found.click();
      await page.waitForTimeout(1000);
      return title.isVisible();
    });
    assert.equal(await page.evaluate(() => window.hurt), undefined);
    assert.equal(await page.locator("#app script, #app [onerror], #app img[src=x]").count(), 0);
    await page.context().close();
  },
  "one that grows is followed": async (server, screen) => {
    const page = await screen.page(PHONE);
    await show(page, COUNT);
    await page.getByText("Line 499 of").waitFor();
    grow("And then it went on");
    await page.getByText("And then it went on").waitFor();
    // A place near the beginning is loaded and marked.
    const read = async (before) => (await server.ask("GET", `/transcripts/${id(COUNT)}?limit=200${before ? `&before=${before.position.join(".")}` : ""}`)).page.items;
    const place = (await read((await read())[0])).find((it) => it.html.includes("Line 150 of"));
    await page.evaluate((hash) => (location.hash = hash), `#/t/${id(COUNT)}/at/${place.position.join(".")}`);
    await page.locator(".entry.found", { hasText: "Line 150 of" }).waitFor();
    await page.context().close();
  },
  "what was said is found in session files and in sessions, and gone to": async (server, screen) => {
    const session = await server.session({ title: "Talk" });
    await server.prompt(session, "where is the quagga");
    await until("it is answered", async () => (await server.texts(session)).length > 0);
    const finds = async (words) => (await server.ask("GET", `/search?q=${encodeURIComponent(words)}`)).results.length > 0;
    await until("everything is indexed", async () => (await finds("quagga")) && (await finds("150 \"long talk\"")), 120_000);
    const page = await screen.page(DESKTOP, session);
    const found = page.locator(".found-text");
    await page.getByLabel("Search all sessions").fill("150 \"long talk\"");
    await found.first().waitFor();
    assert.ok((await found.first().locator("mark").count()) > 0);
    await page.getByLabel("Search all sessions").press("Enter");
    await page.locator(".entry.found", { hasText: "Line 150 of" }).waitFor();
    await page.getByLabel("Search all sessions").fill("quagga");
    await page.locator(".found-text", { hasText: "where is the quagga" }).first().click();
    await page.locator(".entry.found", { hasText: "where is the quagga" }).waitFor();
    assert.ok((await page.evaluate(() => location.hash)).startsWith(`#/s/${session}/at/`));
    await page.context().close();
  },
  "one that a terminal uses is forked": async (server, screen) => {
    const claude = join(SCRATCH, "claude");
    writeFileSync(claude, "#!/bin/sh\nread line\n");
    chmodSync(claude, 0o755);
    const terminal = spawn(claude, ["--resume", id(7)], { cwd: server.project, stdio: ["pipe", "ignore", "ignore"] });
    try {
      const page = await screen.page(DESKTOP);
      await show(page, 7);
      await page.getByText("In use in a terminal").waitFor();
      assert.equal(await page.getByRole("button", { name: "Continue here" }).count(), 0);
      await page.getByRole("button", { name: "Fork" }).click();
      await composer(page).waitFor();
      await page.getByText("Answer 7", { exact: true }).waitFor();
      await page.context().close();
    } finally {
      const ended = new Promise((resolve) => terminal.once("exit", resolve));
      terminal.stdin.end();
      await ended;
    }
  },
  "one is continued where it is read, and is a session from then on": async (server, screen) => {
    const page = await screen.page(DESKTOP);
    await openList(page);
    await page.locator(".project-row", { hasText: "part-2" }).click();
    await page.locator(".other-row", { hasText: "Question 998" }).first().waitFor();
    await show(page, 998);
    await page.getByRole("button", { name: "Continue here" }).click();
    await composer(page).waitFor();
    await page.getByText("Answer 998", { exact: true }).waitFor();
    const session = await page.evaluate(() => location.hash.split("/")[2]);
    await page.locator(`[data-session="${session}"]`, { hasText: "Question 998" }).waitFor();
    await until("it is no other session any more", async () => (await page.locator(`[data-transcript="${id(998)}"]`).count()) === 0);
    await say(page, "hello");
    await until("the agent answers", async () => (await server.texts(session)).length > 0);
    // Its own page leads to the session.
    await page.evaluate((id) => (location.hash = `#/t/${id}`), id(998));
    await page.getByRole("link", { name: "Open it" }).click();
    await composer(page).waitFor();
    assert.equal(await page.evaluate(() => location.hash), `#/s/${session}`);
  },
} });
