// The work of a day with the keyboard alone: no pointer, and no element is focused by the script.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, idle, steps, until } from "./fixture.mjs";

process.env.SHELL = "/bin/sh";
process.env.PS1 = "$ ";

/** No page has more controls between two that belong together. */
const MOST_TABS = 60;

/** Keys that were meant for something else do not answer a request that just appeared. */
const GRACE = 400;

let page, project, session;
const press = async (...keys) => {
  for (const key of keys) await page.keyboard.press(key);
};
const type = (text) => page.keyboard.type(text);
/** What has the focus, in words, and whether a user sees that it has. */
const focused = () =>
  page.evaluate(() => {
    const element = document.activeElement;
    const label = element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ?? element.textContent ?? "";
    const { width, height } = element.getBoundingClientRect();
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element);
    const around = element.closest(".composer, .sidebar-search, .search, .terminal");
    const marked = (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none" || Boolean(around);
    return { label: label.trim(), tag: element.tagName, seen: width > 0 && height > 0, marked };
  });
/** Presses Tab until something with this label has the focus. Everything on the way must show its focus. */
const tabTo = async (label, key = "Tab") => {
  const passed = [];
  for (let n = 0; n < MOST_TABS; n += 1) {
    await press(key);
    const now = await focused();
    if (label.test(now.label) && now.tag !== "BODY") return;
    passed.push(now.label.slice(0, 30));
    if (now.tag !== "BODY" && now.seen) assert.ok(now.marked, `the focus is not visible on ${now.tag} “${now.label}”`);
  }
  assert.fail(`Tab does not reach ${label}: ${passed.join(" · ")}`);
};
const git = (...words) => execFileSync("git", words, { cwd: project, encoding: "utf8" }).trim();
/** Leaves the message field, so that letters are shortcuts. */
const leaveField = () => page.waitForFunction(() => !document.activeElement.matches("textarea, input")).catch(() => assert.fail("a field keeps the focus"));

await steps({
  options: { demo: true },
  steps: {
    "a session is started": async (server, screen) => {
      project = join(server.project, "ferry");
      mkdirSync(project, { recursive: true });
      writeFileSync(join(project, "notes.md"), "# Ferry\n");
      git("init", "-q", "-b", "main");
      for (const [key, value] of [["user.name", "Ann"], ["user.email", "ann@example.org"]]) git("config", key, value);
      git("add", ".");
      git("commit", "-qm", "Notes");
      page = await screen.page();
      await press("Escape", "c");
      await page.getByRole("dialog", { name: "New session" }).waitFor();
      await tabTo(/^Directory/);
      await press("Control+a");
      await type(project);
      await tabTo(/^First message/, "Shift+Tab").catch(() => tabTo(/^First message/));
      await type("Give me a tour");
      await press("Control+Enter");
      await page.waitForFunction(() => location.hash.startsWith("#/s/") && document.querySelector("section.request"));
      [, session] = /#\/s\/([\w-]+)/.exec(page.url());
    },
    "every request is answered": async () => {
      for (;;) {
        await page.waitForFunction(() => document.querySelector("section.request") || document.querySelector(".status .doing")?.textContent?.startsWith("Ready"));
        const request = await page.evaluate(() => ({ ...document.querySelector("section.request")?.dataset }));
        if (!request.kind) {
          if ((await page.textContent(".log")).includes("the end of the tour")) break;
          continue;
        }
        // A draft keeps the focus, and Escape goes to the request without stopping the turn.
        await page.waitForTimeout(GRACE);
        await press("i");
        await page.waitForFunction(() => document.activeElement.matches(".composer textarea"));
        await press("Escape");
        await page.waitForFunction(() => document.activeElement.matches("section.request"));
        if (request.kind === "permission") await press("y");
        else if (request.kind === "plan") await press("1");
        else await press("1", "Enter", "1", "Enter");
        await page.waitForFunction((id) => document.querySelector("section.request")?.dataset.request !== id, request.request);
      }
      await idle(page);
    },
    "a file is read, changed and saved": async () => {
      await press("Escape");
      await leaveField();
      await press("g", "f");
      await page.waitForFunction(() => document.querySelector(".tree-row"));
      await tabTo(/notes\.md/).catch(async () => {
        for (let n = 0; n < 20 && !/notes\.md/.test((await focused()).label); n += 1) await press("ArrowDown");
      });
      await press("Enter");
      await page.waitForFunction(() => document.querySelector(".file-body")?.textContent.includes("Ferry"));
      await tabTo(/^Edit/);
      await press("Enter");
      await page.waitForFunction(() => document.activeElement.matches(".file-pane textarea"));
      await press("Control+a");
      await type("# One ferry\n");
      await press("Control+s");
      await until("it is saved", () => readFileSync(join(project, "notes.md"), "utf8").includes("One ferry"));
    },
    "it is staged and committed": async () => {
      // Tab indents in the editor, and leaves it after Escape.
      await press("Escape", "Tab");
      await leaveField();
      await press("g", "g");
      await page.waitForFunction(() => document.querySelector(".git-file"));
      await tabTo(/^Stage .*notes\.md/);
      await press("Space");
      await until("it is staged", () => git("diff", "--cached", "--name-only").includes("notes.md"));
      // The page learns of it later than git.
      await page.waitForSelector(".git-commit-row button:not([disabled])");
      await tabTo(/^Message of the commit/);
      // The words of the turn are suggested.
      await press("Control+a");
      await type("One ferry");
      await press("Control+Enter");
      await until("it is committed", () => git("log", "-1", "--format=%s") === "One ferry");
    },
    "a command runs in the terminal, and Tab leaves it": async () => {
      await press("Tab");
      await leaveField();
      await press("g", "t");
      await page.waitForSelector(".terminal-cursor", { state: "attached" });
      await page.waitForFunction(() => document.activeElement.matches(".terminal-input"));
      await type("git --no-pager log --oneline");
      await press("Enter");
      await page.waitForFunction(() => document.querySelector(".terminal")?.textContent.includes("One ferry"));
      await press("Control+m", "Tab");
      assert.ok(!(await page.evaluate(() => document.activeElement.matches(".terminal-input"))), "Tab left the terminal");
    },
    "another message is sent, and dialogs give the focus back": async (server) => {
      await press("g", "c");
      await page.waitForFunction(() => document.querySelector(".composer textarea")?.checkVisibility());
      await press("?");
      await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
      await press("Escape");
      await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor({ state: "detached" });
      await press("i");
      await page.waitForFunction(() => document.activeElement.matches(".composer textarea"));
      await type("think about it");
      await press("Enter");
      await until("it arrived", async () => (await server.given(session, "think about it")) === 1);
      await idle(page);
    },
  },
});
