// A working day: one user, a desk and a phone, one session. Every step does what the step before left to do.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, clean, composer, idle, PHONE, say, steps, until } from "./fixture.mjs";

process.env.SHELL = "/bin/sh";
process.env.PS1 = "$ ";

const { PICTURES } = process.env;
const DESK = { viewport: { width: 1500, height: 860 } };
const card = (page) => page.locator("section.request");
const view = (page, name) => page.getByRole("navigation", { name: "Views of this session" }).getByRole("link", { name });
const menu = async (page, name) => {
  await page.getByRole("button", { name: "Session menu" }).click();
  await page.getByRole("menuitem", { name }).click();
};
const picture = async (page, name) => {
  await clean(page, name);
  if (PICTURES) await page.screenshot({ path: join(PICTURES, `day-${name}.png`) });
};

let project, session, desk, phone;
const git = (...words) => execFileSync("git", words, { cwd: project, encoding: "utf8" }).trim();

await steps({
  options: { demo: true },
  steps: {
    "in the morning a session is started with its first message": async (server, screen) => {
      project = join(server.project, "ferry");
      mkdirSync(join(project, "src"), { recursive: true });
      writeFileSync(join(project, "src/timetable.ts"), "export const winter = 4;\n");
      writeFileSync(join(project, "notes.md"), "# Ferry\n\nThe *timetable* of a ferry.\n");
      git("init", "-q", "-b", "main");
      for (const [key, value] of [["user.name", "Ann"], ["user.email", "ann@example.org"]]) git("config", key, value);
      git("add", ".");
      git("commit", "-qm", "Timetable");
      desk = await screen.page(DESK);
      await desk.getByRole("button", { name: "New session", exact: true }).first().click();
      const dialog = desk.getByRole("dialog", { name: "New session" });
      await dialog.getByLabel("Directory").fill(project);
      await dialog.getByLabel("First message").fill("Give me a tour");
      await picture(desk, "1-new-session");
      await dialog.getByLabel("First message").press("Control+Enter");
      await dialog.waitFor({ state: "detached" });
      await card(desk).waitFor();
      [, session] = /#\/s\/([\w-]+)/.exec(desk.url());
    },
    "what the agent asks is answered on the phone, and the desk sees who did": async (server, screen) => {
      phone = await screen.page(PHONE, session);
      await picture(desk, "2-request");
      let first = true;
      for (;;) {
        await phone.waitForFunction(() => document.querySelector("section.request") || document.querySelector(".status .doing")?.textContent?.startsWith("Ready"));
        const kind = await card(phone).getAttribute("data-kind", { timeout: 500 }).catch(() => null);
        if (!kind) {
          if ((await phone.textContent(".log")).includes("the end of the tour")) break;
          continue;
        }
        if (first) await picture(phone, "3-request-on-a-phone");
        first = false;
        const id = await card(phone).getAttribute("data-request");
        if (kind === "permission") await card(phone).getByRole("button", { name: /Allow once/ }).click();
        else if (kind === "plan") await card(phone).getByRole("button", { name: /Accept edits/ }).click();
        else {
          await card(phone).locator(".choice").first().click();
          await card(phone).locator(".choice").nth(1).click();
          await card(phone).getByRole("button", { name: "Answer" }).click();
        }
        await phone.waitForFunction((id) => document.querySelector("section.request")?.dataset.request !== id, id);
      }
      await idle(desk);
      const { entries } = await server.ask("GET", `/sessions/${session}/ledger`);
      assert.ok(entries.some((it) => it.resolution?.by?.via?.startsWith("browser")), JSON.stringify(entries));
    },
    "the changed file is read and corrected": async () => {
      await view(desk, "Files").click();
      await desk.locator(".tree-row", { has: desk.getByText("notes.md", { exact: true }) }).click();
      await desk.waitForFunction(() => document.querySelector(".file-body")?.textContent.includes("timetable"));
      await picture(desk, "4-files");
      await desk.locator(".file-actions").getByRole("button", { name: "Edit", exact: true }).click();
      const editor = desk.locator(".file-pane textarea");
      await editor.fill("# Ferry\n\nThe timetable of *one* ferry.\n");
      await editor.press("Control+s");
      await until("it is saved", () => readFileSync(join(project, "notes.md"), "utf8").includes("one"));
    },
    "it is committed, and a shell shows the commit": async () => {
      await view(desk, "Git").click();
      const row = desk.locator('.git-file[data-side=unstaged][data-key="notes.md"]');
      await row.locator("a").click();
      await desk.locator(".git-hunk").first().waitFor();
      await picture(desk, "5-git");
      await row.locator("input").click();
      await desk.locator('.git-file[data-side=staged][data-key="notes.md"]').waitFor();
      await desk.getByLabel("Message of the commit").fill("One ferry");
      await desk.getByLabel("Message of the commit").press("Control+Enter");
      await until("it is committed", () => git("log", "-1", "--format=%s") === "One ferry");
      await view(desk, "Terminal").click();
      await desk.waitForSelector(".terminal-cursor", { state: "attached" });
      await desk.locator(".terminal-input").focus();
      await desk.keyboard.type("git --no-pager log --oneline --stat");
      await desk.keyboard.press("Enter");
      await desk.waitForFunction(() => document.querySelector(".terminal")?.textContent.includes("One ferry"));
      await picture(desk, "6-terminal");
    },
    "a message without a network arrives once, later": async (server, screen) => {
      await view(desk, "Chat").click();
      await desk.context().setOffline(true);
      await say(desk, "think about it");
      await desk.locator(".toast", { hasText: "Not sent" }).waitFor();
      await until("it is back in the field", async () => (await composer(desk).inputValue()) === "think about it");
      await desk.reload().catch(() => undefined);
      await desk.context().setOffline(false);
      await screen.show(desk, session);
      await until("it is still there", async () => (await composer(desk).inputValue()) === "think about it");
      await composer(desk).press("Enter");
      await until("it arrived", async () => (await server.given(session, "think about it")) === 1);
      await idle(desk);
    },
    "in the evening one for tomorrow is left, and the day is found again": async (server) => {
      await composer(desk).fill("look through the new issues");
      await menu(desk, /^Send later/);
      const dialog = desk.getByRole("dialog", { name: "Send later" });
      await dialog.locator("select").selectOption("weekdays");
      await dialog.locator("input[type=time]").fill("09:00");
      await dialog.getByRole("button", { name: "Schedule", exact: true }).click();
      await desk.locator(".schedules li").filter({ hasText: "Weekdays 09:00" }).waitFor();
      await picture(desk, "7-send-later");
      await desk.keyboard.press("Escape");
      await phone.getByRole("button", { name: "1 scheduled" }).waitFor();
      await picture(phone, "8-evening-on-a-phone");
      assert.equal(await server.given(session, "Give me a tour"), 1, "no message ran twice");
      assert.equal(git("status", "--porcelain", "notes.md"), "");
    },
  },
});
