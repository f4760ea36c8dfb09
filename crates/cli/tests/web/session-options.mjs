// Options from the page to the agent: a session is created with every option there is, and the agent's own
// arguments and environment are looked at. Then they are changed while it runs.
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { assert, clean, composer, DESKTOP, idle, PHONE, say, steps, until } from "./fixture.mjs";

const { SCRATCH, TOWPATH } = process.env;
const agent = join(SCRATCH, "agent");
const record = join(SCRATCH, "record");
process.env.TOWPATH_PLAY_SCENARIO = fileURLToPath(new URL("page.scenario", import.meta.url));
// It notes what it was started with, then it is the built-in agent.
writeFileSync(agent, `#!/bin/sh\nmkdir -p '${record}'\nn=$(ls '${record}' | wc -l)\nfor it in "$@"; do printf '%s\\0' "$it"; done > '${record}/.args'\nenv -0 > '${record}/.env'\ncat '${record}/.args' > '${record}/'$n-args.tmp\nprintf '\\0\\0' >> '${record}/'$n-args.tmp\ncat '${record}/.env' >> '${record}/'$n-args.tmp\nmv '${record}/'$n-args.tmp '${record}/'$n\nexec '${TOWPATH}' play "$@"\n`);
chmodSync(agent, 0o755);

/** What the agent's process number `n` was started with. */
async function started(n) {
  const text = await until(`agent ${n} was started`, () => { try { return readFileSync(join(record, String(n)), "utf8"); } catch { return undefined; } }, 60_000);
  const [args, environment] = text.split("\0\0\0");
  return { args: args.split("\0"), environment: Object.fromEntries(environment.split("\0").filter(Boolean).map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)])) };
}
/** The values of a flag, however often and in whichever form it is given. */
const after = (args, flag) => args.flatMap((it, n) => (it === flag ? [args[n + 1]] : it.startsWith(`${flag}=`) ? [it.slice(flag.length + 1)] : []));
const field = (page, name) => page.locator(`dialog [data-option=${name}]`);
const input = (page, name) => field(page, name).locator("input, select, textarea").first();

/** Enters a value as a user does. */
async function enter(page, option, value) {
  const place = field(page, option.name);
  const box = input(page, option.name);
  if (option.kind === "switch") await box.setChecked(value);
  else if (["choice", "agent"].includes(option.kind)) await box.selectOption(value);
  else if (["list", "directories"].includes(option.kind)) {
    for (const one of value) {
      await place.locator(".add-entry input").fill(one);
      await place.locator(".add-entry input").press("Enter");
    }
  } else if (option.kind === "variables") {
    for (const [name, text] of Object.entries(value)) {
      await place.getByRole("button", { name: "Add a variable" }).click();
      const row = place.locator(".variable").last();
      await row.getByLabel("Name of the variable").fill(name);
      await row.getByLabel("Value of the variable").fill(text);
    }
  } else await box.fill(option.kind === "mcp" ? JSON.stringify(value) : String(value));
}

const MCP = { mcpServers: { issues: { command: "issues-mcp", env: { TOKEN: "s3cret" } } } };
let session;

await steps({ options: { claude: agent, more: ["--allow-bypass"] }, steps: {
  "the agent receives every option that is entered": async (server, screen) => {
    const lib = join(server.project, "lib");
    mkdirSync(lib, { recursive: true });
    const VALUES = {
      agent: "claude", model: "opus", effort: "high", mode: "plan", fallback_model: "sonnet", max_turns: 17, max_budget_usd: 3.25, budget_usd: 4.5, append_system_prompt: "Two lines,\n“quoted” <b>and</b> all.",
      allowed_tools: ["Read", "Bash(git:*)"], disallowed_tools: ["WebFetch"], extra_directories: [lib], mcp_config: MCP, environment: { SHOP_KEY: "a=b 'c'", EMPTY_ONE: "" },
      idle_timeout: "2h", continue_after_cut: true, session_persistence: false, delete_when_ended: true,
    };
    const { options } = await server.ask("GET", `/options?cwd=${encodeURIComponent(server.project)}`);
    assert.deepEqual(Object.keys(VALUES).sort(), options.map((it) => it.name).sort(), "this test knows every option");
    const page = await screen.page(DESKTOP);
    await page.getByRole("button", { name: "New session" }).first().click();
    await page.locator(".more-options summary").click();
    await page.getByLabel("Directory", { exact: true }).fill(server.project);
    await page.getByLabel("Title").fill("Every option");
    await page.getByLabel("First message").fill("hello");
    for (const option of options) await enter(page, option, VALUES[option.name]);
    await clean(page, "a form with every option");
    await page.locator("dialog").getByRole("button", { name: "Create" }).click();
    await page.waitForFunction(() => document.querySelector(".bar h1")?.textContent === "Every option");
    session = new URL(page.url()).hash.split("/").pop();
    const { args, environment } = await started(0);
    assert.deepEqual(after(args, "--model"), ["opus"]);
    assert.deepEqual(after(args, "--permission-mode"), ["plan"]);
    assert.deepEqual(after(args, "--fallback-model"), ["sonnet"]);
    assert.deepEqual(after(args, "--max-turns"), ["17"]);
    assert.deepEqual(after(args, "--max-budget-usd"), ["3.25"]);
    assert.deepEqual(after(args, "--append-system-prompt"), [VALUES.append_system_prompt]);
    assert.match(after(args, "--allowedTools").join(), /Read.*Bash\(git:\*\)/);
    assert.match(after(args, "--disallowedTools").join(), /WebFetch/);
    assert.deepEqual(after(args, "--add-dir"), [lib]);
    assert.ok(args.includes("--no-session-persistence"));
    assert.equal(environment.CLAUDE_CODE_EFFORT_LEVEL, "high");
    assert.deepEqual([environment.SHOP_KEY, environment.EMPTY_ONE], ["a=b 'c'", ""]);
    const given = after(args, "--mcp-config")[0];
    assert.deepEqual(JSON.parse(given.startsWith("{") ? given : readFileSync(given, "utf8")), MCP);
    const stored = (await server.ask("GET", `/sessions/${session}`)).options;
    assert.deepEqual(stored, VALUES, "those the agent does not know of are kept too");
    await until("it is answered", async () => (await server.texts(session)).includes("I heard you."), 40_000);
    await page.context().close();
  },
  "the settings show them, and a change reaches the agent with its next message": async (server, screen) => {
    const page = await screen.page(PHONE, session);
    await idle(page);
    await page.getByRole("button", { name: "Session menu" }).tap();
    await page.getByRole("menuitem", { name: /^Session settings/ }).tap();
    await field(page, "max_turns").waitFor();
    assert.equal(await input(page, "max_turns").inputValue(), "17");
    assert.equal(await input(page, "append_system_prompt").inputValue(), "Two lines,\n“quoted” <b>and</b> all.");
    assert.deepEqual(JSON.parse(await input(page, "mcp_config").inputValue()), MCP);
    assert.equal(await input(page, "delete_when_ended").isChecked(), true);
    await input(page, "delete_when_ended").uncheck();
    await input(page, "max_turns").fill("18");
    await field(page, "disallowed_tools").getByRole("button", { name: "Remove WebFetch" }).tap();
    assert.equal(await page.locator(".sheet-status").textContent(), "3 changes; the agent restarts with the next message");
    await page.getByRole("button", { name: "Save" }).tap();
    await page.waitForSelector("dialog", { state: "detached" });
    await composer(page).fill("hello again");
    await page.locator(".send").tap();
    const { args } = await started(1);
    assert.deepEqual(after(args, "--max-turns"), ["18"]);
    assert.deepEqual(after(args, "--disallowedTools"), []);
    await until("it is answered", async () => (await server.texts(session)).filter((it) => it === "I heard you.").length === 2, 40_000);
    await page.context().close();
  },
  "a refused value is explained beside its field": async (server, screen) => {
    const page = await screen.page(DESKTOP, session);
    await page.getByRole("button", { name: "Session menu" }).click();
    await page.getByRole("menuitem", { name: /^Session settings/ }).click();
    await field(page, "idle_timeout").waitFor();
    await input(page, "idle_timeout").fill("a while");
    await page.getByRole("button", { name: "Save" }).click();
    await until("the error is shown", async () => (await field(page, "idle_timeout").locator(".form-error").textContent()) !== "");
    assert.ok(await input(page, "idle_timeout").evaluate((it) => it === document.activeElement));
    await page.keyboard.press("Escape");
    await page.context().close();
  },
  "everything is allowed after a question, and the agent is restarted for it": async (server, screen) => {
    const page = await screen.page(DESKTOP, session);
    await idle(page).catch(() => undefined);
    await page.locator(".chip-button[title^='Permission mode']").click();
    await page.getByRole("menuitemradio", { name: /^Bypass/ }).click();
    const ask = page.getByRole("dialog", { name: "Let the agent do everything?" });
    await ask.getByRole("button", { name: "Allow everything" }).click();
    await until("it is stored", async () => (await server.ask("GET", `/sessions/${session}`)).options.mode === "bypassPermissions");
    await say(page, "hello once more");
    const { args } = await started(2);
    assert.deepEqual(after(args, "--permission-mode"), ["bypassPermissions"]);
    await page.context().close();
  },
  "changes are committed when the settings say so, and the log says that": async (server, screen) => {
    const git = (...args) => execFileSync("git", ["-c", "user.name=Me", "-c", "user.email=me@example.com", ...args], { cwd: server.project, encoding: "utf8", env: { ...process.env, HOME: SCRATCH } });
    git("init", "-q");
    git("commit", "-q", "--allow-empty", "-m", "Start");
    git("config", "user.name", "Me");
    git("config", "user.email", "me@example.com");
    const page = await screen.page(DESKTOP, session);
    await idle(page);
    const openSettings = async () => {
      await page.getByRole("button", { name: "Session menu" }).click();
      await page.getByRole("menuitem", { name: /^Session settings/ }).click();
      await page.locator(".watch-section").waitFor();
    };
    await openSettings();
    await page.getByRole("radio", { name: /of its own/ }).check();
    await input(page, "commit").selectOption("turn");
    await input(page, "scan").check();
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForSelector("dialog", { state: "detached" });
    await say(page, "make a file");
    await until("it is committed", () => git("log", "--name-only", "--format=%H").includes("made.txt"), 60_000);
    const [commit] = git("log", "-1", "--format=%H").split("\n");
    await until("the log has the commit", async () => (await server.ask("GET", `/sessions/${session}/watch`)).log.some((it) => JSON.stringify(it).includes(commit.slice(0, 7))));
    await openSettings();
    assert.equal(await page.getByRole("radio", { name: /of its own/ }).isChecked(), true);
    await page.locator(".watch-history").evaluate((it) => (it.open = true));
    assert.match(await page.locator(".watch-log").textContent(), new RegExp(commit.slice(0, 7)));
    await clean(page, "a log of commits");
    await page.context().close();
  },
  "what the agent says about itself is shown": async (server, screen) => {
    const page = await screen.page(DESKTOP, session);
    await page.getByRole("button", { name: "Session menu" }).click();
    await page.getByRole("menuitem", { name: /^About the agent/ }).click();
    const dialog = page.getByRole("dialog", { name: "About the agent" });
    await dialog.locator(".facts").waitFor();
    assert.match(await dialog.locator(".facts").textContent(), /Version\d+\.\d+.*Directory\//s);
    assert.ok((await dialog.locator(".names li").count()) > 5);
    await clean(page, "about a real agent");
    await page.context().close();
  },
} });
