// The repository of a session in a real browser: staging by file and by hunk, discarding, committing,
// branches, history; projects in the list, and sessions in a working tree of their own.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { assert, clean, composer, idle, PHONE, say, steps, until } from "./fixture.mjs";

const git = (server, ...words) => execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=a@b", ...words], { cwd: server.project, encoding: "utf8" });
const write = (server, path, text) => {
  mkdirSync(dirname(join(server.project, path)), { recursive: true });
  writeFileSync(join(server.project, path), text);
};
const LINES = Array.from({ length: 40 }, (_, n) => `line ${n}\n`);
const CHANGED = LINES.with(3, "three <img src=x onerror=alert(1)>\n").with(30, "thirty\n").join("");
const row = (page, side, path) => page.locator(`.git-file[data-side=${side}][data-key="${path}"]`);
const open = async (server, page, id, rest = "") => {
  await page.goto(`${server.address}/#/s/${id}/git${rest}`);
  await page.waitForSelector(".git-tabs a");
};
let session;

await steps({ steps: {
  "files and hunks are staged, and committed with a message of the last turn": async (server, screen) => {
    git(server, "init", "-q", "-b", "main");
    for (const [key, value] of [["user.name", "Ada"], ["user.email", "a@b"]]) git(server, "config", key, value);
    write(server, "src/long.ts", LINES.join(""));
    write(server, "src/other.ts", "a\n");
    git(server, "add", ".");
    git(server, "commit", "-qm", "First");
    session = await server.session({ allowed_tools: ["Write", "Edit", "Bash"] });
    const page = await screen.page(undefined, session);
    await say(page, "write the log");
    await idle(page);
    write(server, "src/long.ts", CHANGED);
    await page.getByRole("navigation", { name: "Views of this session" }).getByRole("link", { name: "Git" }).click();
    await row(page, "unstaged", "src/long.ts").waitFor();
    await row(page, "unstaged", "log.txt").waitFor();
    assert.equal(await page.getByLabel("Message of the commit").inputValue(), "write the log", "what the turn was asked to do");
    await clean(page, "changes");
    await row(page, "unstaged", "src/long.ts").locator("a").click();
    await page.locator(".git-hunk").nth(1).waitFor();
    assert.equal(await page.locator(".git-hunk img").count(), 0, "markup in files is text");
    await clean(page, "a diff");
    await page.locator(".git-hunk").nth(1).getByRole("button", { name: /^Stage/ }).click();
    await row(page, "staged", "src/long.ts").waitFor();
    assert.equal(git(server, "show", ":src/long.ts"), LINES.with(30, "thirty\n").join(""));
    await until("the other part is left", async () => (await page.locator(".git-hunk").count()) === 1);
    await row(page, "unstaged", "log.txt").locator("input").click();
    await row(page, "staged", "log.txt").waitFor();
    await page.getByLabel("Message of the commit").fill("Thirty");
    await page.getByLabel("Message of the commit").press("Control+Enter");
    await row(page, "staged", "log.txt").waitFor({ state: "detached" });
    assert.equal(git(server, "log", "-1", "--format=%s").trim(), "Thirty");
    assert.equal(git(server, "show", "--format=", "--name-only").trim().split("\n").sort().join(), "log.txt,src/long.ts");
    await page.context().close();
  },
  "keys alone are enough, and what is discarded is said before": async (server, screen) => {
    write(server, "src/other.ts", "b\n");
    write(server, "src/new.ts", "new\n");
    const page = await screen.page();
    await open(server, page, session);
    await row(page, "unstaged", "src/other.ts").locator("a").focus();
    await page.keyboard.press("Space");
    await row(page, "staged", "src/other.ts").waitFor();
    await row(page, "staged", "src/other.ts").locator("a").focus();
    await page.keyboard.press("Space");
    await row(page, "staged", "src/other.ts").waitFor({ state: "detached" });
    await page.locator(".git-file a").first().focus();
    await page.keyboard.press("ArrowDown");
    assert.equal(await page.evaluate(() => document.activeElement.closest(".git-file").dataset.key), "src/other.ts");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Delete");
    const dialog = page.getByRole("dialog", { name: "Discard changes?" });
    assert.match(await dialog.textContent(), /src\/new\.ts is not in git\. It is deleted/);
    await dialog.getByRole("button", { name: "Cancel" }).click();
    assert.ok(existsSync(join(server.project, "src/new.ts")));
    await row(page, "unstaged", "src/new.ts").locator("a").focus();
    await page.keyboard.press("Delete");
    await dialog.getByRole("button", { name: "Discard" }).click();
    await row(page, "unstaged", "src/new.ts").waitFor({ state: "detached" });
    assert.equal(existsSync(join(server.project, "src/new.ts")), false);
    await row(page, "unstaged", "src/long.ts").locator("a").focus();
    await page.keyboard.press("Enter");
    await page.locator(".git-hunk").getByRole("button", { name: /^Discard/ }).click();
    assert.match(await page.getByRole("dialog").textContent(), /1 added line and 1 removed line are undone/);
    await page.getByRole("dialog").getByRole("button", { name: "Discard" }).click();
    await row(page, "unstaged", "src/long.ts").waitFor({ state: "detached" });
    assert.equal(readFileSync(join(server.project, "src/long.ts"), "utf8"), LINES.with(30, "thirty\n").join(""));
    await page.context().close();
  },
  "a branch is created and switched to, and git's refusal is shown": async (server, screen) => {
    const page = await screen.page();
    await open(server, page, session);
    await page.locator(".git-branch").click();
    const dialog = page.getByRole("dialog", { name: "Branches" });
    await dialog.getByLabel("Find or create a branch").fill("topic/cart");
    await dialog.getByRole("button", { name: /Create topic\/cart/ }).click();
    await dialog.waitFor({ state: "detached" });
    await until("the branch", async () => (await page.locator(".git-branch").textContent()) === "topic/cart");
    git(server, "commit", "-qam", "Other");
    write(server, "src/other.ts", "c\n");
    await page.locator(".git-branch").click();
    await clean(page, "branches");
    await dialog.getByRole("button", { name: /^main/ }).click();
    await until("git's words", async () => /would be overwritten/.test(await dialog.locator(".git-refusal").textContent()));
    await page.keyboard.press("Escape");
    git(server, "checkout", "-q", "src/other.ts");
    await page.context().close();
  },
  "commits are listed and shown on a phone, step by step": async (server, screen) => {
    const page = await screen.page(PHONE);
    await open(server, page, session, "/log");
    await page.locator(".git-commit", { hasText: "Thirty" }).click();
    await page.locator(".git-commit-files a", { hasText: "src/long.ts" }).click();
    await page.locator(".git-hunk .added").waitFor();
    assert.equal(await page.locator(".git-list").isVisible(), false);
    await clean(page, "a file of a commit on a phone");
    await page.getByRole("button", { name: "Back to the list" }).click();
    await page.locator(".git-commit-files").waitFor();
    await page.goBack();
    await page.locator(".git-hunk").waitFor();
    await page.context().close();
  },
  "projects group sessions, which are pinned and archived for every browser": async (server, screen) => {
    write(server, "src/other.ts", "dirty\n");
    const page = await screen.page(undefined, session);
    const second = await screen.page(undefined, session);
    // The server may answer from memory at first. A page asks again when something happens in a session.
    const other = await server.session({ title: "Second one" });
    await until("the branch and the changes", async () => /project\s*topic\/cart\s*±1/.test(await page.locator(".project").first().innerText()));
    await clean(page, "projects");
    await screen.show(page, other);
    const mark = async (name) => {
      await page.getByRole("button", { name: "Session menu" }).click();
      await page.getByRole("menuitem", { name, exact: true }).click();
    };
    await mark("Pin");
    await second.locator("#tier-pinned + ul .row", { hasText: "Second one" }).waitFor();
    await mark("Archive");
    await second.getByRole("button", { name: "Archived (1)" }).waitFor();
    assert.equal(await second.locator(".row", { hasText: "Second one" }).count(), 0);
    await second.getByRole("button", { name: "Archived (1)" }).click();
    await second.locator(".row", { hasText: "Second one" }).waitFor();
    await mark("Take out of the archive");
    await second.getByRole("button", { name: /Archived/ }).waitFor({ state: "detached" });
    await page.context().close();
    await second.context().close();
  },
  "a message creates a session in a working tree, which is removed with it": async (server, screen) => {
    const page = await screen.page(undefined, session);
    await page.getByRole("button", { name: "New session", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "New session" });
    await dialog.locator(".worktree-chip:not([hidden])").waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.className), "first-message", "one starts with the message");
    await dialog.getByLabel(/In a new working tree/).check();
    await clean(page, "new session");
    await dialog.getByLabel("First message").fill("write the log");
    await dialog.getByLabel("First message").press("Control+Enter");
    await dialog.waitFor({ state: "detached" });
    await until("another session", async () => !page.url().includes(session));
    await composer(page).waitFor();
    const tree = join(server.project, ".towpath/worktrees/write-the-log");
    await until("the working tree", () => existsSync(join(tree, "src/long.ts")));
    assert.equal(git(server, "-C", tree, "branch", "--show-current").trim(), "towpath/write-the-log");
    await page.locator(".row[aria-current=page] .place", { hasText: "towpath/write-the-log" }).waitFor();
    writeFileSync(join(tree, "unsaved.txt"), "x");
    await page.getByRole("button", { name: "Session menu" }).click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    const question = page.getByRole("dialog", { name: "Delete this session?" });
    await question.getByText(/Lost for good: .*file/).click();
    await clean(page, "deleting a working tree");
    await question.getByRole("button", { name: "Delete" }).click();
    await until("it is gone", () => !existsSync(tree));
    await until("so is its branch", () => git(server, "branch", "--list", "towpath/*") === "");
    await page.context().close();
  },
} });
