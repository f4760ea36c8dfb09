// What every script uses: a server with the built-in agent, a browser, and the journal to compare the
// screen with.
import { spawn } from "node:child_process";
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const { TOWPATH, SCRATCH, BROWSER } = process.env;
/** Pages that are worked on, in place of those built in. */
const PAGES_LIVE = process.env.PAGES_LIVE;
const SCENARIO = fileURLToPath(new URL("page.scenario", import.meta.url));
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
/** How long anything may take, in milliseconds, on a machine that has much else to do. */
const PATIENCE = 60_000;
export const DESKTOP = { viewport: { width: 1280, height: 800 } };
export const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };

/** A server. It can be killed and started again on the same port and data. */
export class Server {
  static async start(options = {}) {
    const server = new Server();
    server.options = options;
    server.project = join(SCRATCH, "project");
    mkdirSync(server.project, { recursive: true });
    await server.begin("127.0.0.1:0");
    return server;
  }

  async begin(listen) {
    // The player replaces the CLI; its texts come from the scenario or its own tour. The real CLI gets
    // the scenario's texts from the scripted API.
    const { claude, more = [] } = this.options;
    const agent = [...(claude ? ["--claude", claude] : ["--demo"]), ...more];
    const environment = { ...process.env, HOME: SCRATCH, TMPDIR: SCRATCH, TOWPATH_PLAY_PACE: "4" };
    if (claude) Object.assign(environment, await this.script());
    else if (!this.options.demo) Object.assign(environment, { TOWPATH_PLAY_SCENARIO: SCENARIO });
    this.process = spawn(TOWPATH, ["serve", ...agent, "--listen", listen, "--data", join(SCRATCH, "data"), "--root", this.project, "--json", ...(PAGES_LIVE ? ["--pages", PAGES_LIVE] : [])], { env: environment, stdio: ["ignore", "pipe", "pipe"], cwd: this.project });
    let complaints = "";
    this.process.stderr.on("data", (text) => (complaints += text));
    const line = await new Promise((resolve, reject) => {
      createInterface({ input: this.process.stdout }).once("line", resolve);
      this.process.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${complaints}`)));
    });
    const ready = JSON.parse(line);
    this.address = new URL(ready.url).origin;
    this.token = ready.token ?? this.token;
  }

  /** The environment that makes the CLI use the scripted API. */
  async script() {
    if (!this.api) {
      this.stub = spawn(TOWPATH, ["stub", "--json", SCENARIO], { cwd: this.project, stdio: ["ignore", "pipe", "inherit"] });
      const line = await new Promise((resolve) => createInterface({ input: this.stub.stdout }).once("line", resolve));
      this.api = JSON.parse(line).url;
    }
    return {
      ANTHROPIC_BASE_URL: this.api, ANTHROPIC_API_KEY: "sk-dummy", IS_SANDBOX: "1", CLAUDE_CODE_TMPDIR: SCRATCH, CLAUDE_CODE_MAX_RETRIES: "1",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_AUTOUPDATER: "1", DISABLE_TELEMETRY: "1",
    };
  }

  /** kill -9, and a new server on the same port. */
  async crash() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGKILL");
    await ended;
    return () => this.begin(new URL(this.address).host);
  }

  async stop() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    // A server that is only ended leaves its agents running; the test leaves none behind.
    spawn(TOWPATH, ["serve", "--stop", "--data", join(SCRATCH, "data")], { env: { ...process.env, HOME: SCRATCH }, stdio: "ignore" });
    await ended;
    this.stub?.kill("SIGTERM");
  }

  async ask(method, path, body) {
    const headers = { authorization: `Bearer ${this.token}`, ...(body && { "content-type": "application/json" }) };
    const answer = await fetch(`${this.address}/api/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  async session(more = {}) {
    const { id } = await this.ask("POST", "/sessions", { cwd: this.project, ...more });
    return id;
  }

  async prompt(session, text, delivery = "queue") {
    const id = randomUUID();
    await this.ask("POST", `/sessions/${session}/prompts`, { id, text, delivery });
    return id;
  }

  /** Every line of the journal, parsed. */
  async lines(session) {
    const all = [];
    for (let after = 0, more = true; more; ) {
      const page = await this.ask("GET", `/sessions/${session}/lines?after=${after}&limit=500`);
      all.push(...page.lines);
      more = page.more;
      after = all.at(-1)?.seq ?? 0;
    }
    return all.map((line) => ({ ...line, value: JSON.parse(line.line) }));
  }

  /** The finished texts of the agent, from the journal. */
  async texts(session) {
    const lines = await this.lines(session);
    const messages = lines.filter((line) => line.origin === "agent" && line.value.type === "assistant");
    return messages.flatMap((line) => line.value.message.content).filter((block) => block.type === "text").map((block) => block.text);
  }

  /** How often the agent was given a prompt with these words. */
  async given(session, words) {
    const lines = await this.lines(session);
    return lines.filter((line) => line.origin === "agent" && line.value.type === "user" && JSON.stringify(line.value.message).includes(words)).length;
  }
}

/** A browser with the page signed in; errors of any page fail the script. */
export class Screen {
  static async open(server, program = BROWSER) {
    const screen = new Screen();
    screen.server = server;
    screen.faults = [];
    screen.browser = await chromium.launch({ executablePath: program, args: FLAGS });
    return screen;
  }

  async page(kind = DESKTOP, session = undefined, token = this.server.token) {
    const context = await this.browser.newContext({ ...kind, reducedMotion: "reduce" });
    const page = await context.newPage();
    this.watch(page);
    await page.goto(`${this.server.address}/#token=${encodeURIComponent(token)}`);
    await page.waitForSelector(".sidebar, .sign-in", { state: "attached" });
    await page.waitForFunction(() => !location.hash.includes("token"));
    if (session) await this.show(page, session);
    return page;
  }

  watch(page) {
    page.on("pageerror", (error) => this.faults.push(String(error.stack ?? error)));
    page.on("console", (message) => {
      // The browser reports connections that a test cuts on purpose.
      if (message.type() === "error" && !/WebSocket|ERR_|Failed to load resource/.test(message.text())) this.faults.push(message.text());
    });
    page.setDefaultTimeout(PATIENCE);
  }

  async show(page, session) {
    await page.goto(`${this.server.address}/#/s/${session}`);
    await page.waitForFunction(() => document.querySelector(".bar h1")?.textContent !== "…");
  }

  async close() {
    await this.browser.close();
    assert.deepEqual(this.faults, [], "faults of the pages");
  }
}

export const composer = (page) => page.locator(".composer textarea");

export async function say(page, text, key = "Enter") {
  await composer(page).fill(text);
  await composer(page).press(key);
}

/** The agent's texts on the screen, without sub-agents. */
export const shown = (page) => page.$$eval(".entry > .item.text", (items) => items.map((item) => item.textContent.trim()));

export async function until(what, check, limit = PATIENCE) {
  const end = Date.now() + limit;
  let last;
  while (Date.now() < end) {
    last = await check();
    if (last) return last;
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
  throw new Error(`did not happen: ${what}`);
}

export const idle = (page) => page.waitForFunction(() => document.querySelector(".status .doing")?.textContent?.startsWith("Ready"));

/** The screen shows exactly the texts of the journal, once. */
export async function agree(server, page, session) {
  const flat = (texts) => texts.map((text) => text.replace(/\s+/g, " ").trim());
  await until("screen and journal agree", async () => JSON.stringify(flat(await shown(page))) === JSON.stringify(flat(await server.texts(session)))).catch(async () => {
    assert.deepEqual(flat(await shown(page)), flat(await server.texts(session)));
  });
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Serious accessibility problems: on a desktop in light, on a phone in dark. */
async function faults(page) {
  const colorScheme = page.viewportSize().width > 800 ? "light" : "dark";
  await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
  // The page's own policy forbids scripts that are not its own, so this one comes from outside it.
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
  const run = (expression) => session.send("Runtime.evaluate", { contextId: executionContextId, expression, awaitPromise: true, returnByValue: true });
  await run(`${AXE}; undefined`);
  const { result, exceptionDetails } = await run("axe.run(document, { resultTypes: ['violations'] }).then((it) => it.violations.filter((one) => ['serious', 'critical'].includes(one.impact)).map((one) => one.id + ': ' + one.nodes.slice(0, 4).map((node) => node.html.slice(0, 160) + ' ' + (node.any[0]?.message ?? '')).join(' | ')))");
  assert.ok(!exceptionDetails, JSON.stringify(exceptionDetails));
  await session.detach();
  return result.value.map((it) => `${colorScheme} ${it}`);
}

/** Axe finds nothing serious. */
export const clean = async (page, where) => assert.deepEqual(await faults(page), [], where);

/** Runs steps in order and reports which one failed. */
export async function steps(all) {
  const server = await Server.start(all.options);
  const screen = await Screen.open(server, all.browser);
  try {
    for (const [name, step] of Object.entries(all.steps)) {
      const began = Date.now();
      try {
        await step(server, screen);
      } catch (problem) {
        for (const context of screen.browser.contexts()) for (const page of context.pages()) console.log((await page.innerText("body").catch(() => "")).slice(-1500));
        throw new Error(`${name}: ${problem.stack}`);
      }
      console.log(`✓ ${name} (${Date.now() - began} ms)`);
    }
    await screen.close();
  } finally {
    await screen.browser.close().catch(() => undefined);
    await server.stop();
  }
}

export { assert };
