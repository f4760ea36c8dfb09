import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, clean, composer, idle, PHONE, say, steps, until } from "./fixture.mjs";

const WIDE = { viewport: { width: 1500, height: 860 } };
const NARROWER = { viewport: { width: 1300, height: 800 } };
const log = (server) => readFileSync(join(server.project, "log.txt"), "utf8");
const rows = (page) => page.locator(".side-row[data-key$='log.txt']");
const written = (page, words) => until(`it says ${JSON.stringify(words)}`, async () => (await composer(page).inputValue()) === words);
let session;

await steps({ steps: {
  "changed files stand beside the conversation": async (server, screen) => {
    session = await server.session({ allowed_tools: ["Write", "Edit", "Bash"] });
    const page = await screen.page(WIDE, session);
    await page.locator(".side").waitFor();
    for (const words of ["write the log", "change the log"]) {
      await say(page, words);
      await until(words, async () => (await server.texts(session)).length === (words.startsWith("write") ? 1 : 2));
      await idle(page);
    }
    assert.equal(log(server), "one\n2\nthree\n");
    await page.waitForFunction(() => /log\.txt\+1−1/.test(document.querySelector(".side")?.textContent ?? ""));
    assert.match(await page.locator(".side .choose [aria-pressed=true]").textContent(), /Turn 2/);
    await page.getByRole("button", { name: "All turns" }).click();
    await page.waitForFunction(() => /log\.txt2 turns/.test(document.querySelector(".side")?.textContent ?? ""));
    await clean(page, "beside");
    const changed = await server.ask("GET", `/sessions/${session}/changed`);
    assert.deepEqual(changed.files.map((it) => [it.edits, it.turns]), [[2, [1, 2]]]);
  },
  "a line of a change is quoted by click and by key": async (server, screen) => {
    const page = await screen.page(WIDE, session);
    await page.getByRole("button", { name: "All turns" }).click();
    await rows(page).click();
    const dialog = page.getByRole("dialog", { name: "log.txt" });
    await dialog.locator(".diff .removed").waitFor();
    assert.match(await dialog.textContent(), /Turn 2.*Turn 1/s);
    assert.deepEqual(await dialog.locator(".diff").last().locator(".added i").allTextContents(), ["1", "2", "3"], "a new file has numbers");
    await clean(page, "a file");
    await dialog.locator(".diff:has(.removed) .added").hover();
    await dialog.locator(".diff:has(.removed) .added .comment-line").click();
    await dialog.waitFor({ state: "detached" });
    await written(page, "log.txt:2\n> +2\n");
    await page.keyboard.type("why a digit?");
    // The same in the conversation, with keys alone.
    const closed = page.locator(".item.call.edit:has(.diff) > details:not([open]) > summary");
    if (await closed.count()) await closed.last().click();
    await page.locator(".log .comment-line").last().focus();
    for (let n = 0; n < 5; n += 1) await page.keyboard.press("ArrowDown");
    assert.match(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), /^Comment on line 3: three/);
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await written(page, "log.txt:2\n> +2\nwhy a digit?\n\nlog.txt:2\n> -two\n");
    assert.equal(await composer(page).evaluate((it) => it === document.activeElement), true);
    await composer(page).fill("");
  },
  "where there is less room it is hidden, and remembered when it is not": async (server, screen) => {
    const page = await screen.page(NARROWER, session);
    await page.locator(".turn .files summary").last().click();
    await page.locator(".turn .file-link").last().click();
    await page.getByRole("dialog", { name: "log.txt" }).locator(".diff").waitFor();
    await page.keyboard.press("Escape");
    assert.equal(await page.locator(".side").count(), 0);
    await page.keyboard.press("p");
    await page.locator(".side").waitFor();
    await page.reload();
    await rows(page).waitFor();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${wide} px stick out`);
    await page.keyboard.press("Escape");
    await page.locator(".side").getByRole("button", { name: "Close" }).press("Enter");
    await page.locator(".side").waitFor({ state: "detached" });
    assert.equal(await page.getByRole("button", { name: "Changes and tasks" }).getAttribute("aria-expanded"), "false");
  },
  "on a phone it is a sheet, and a line is quoted by touch": async (server, screen) => {
    const page = await screen.page(PHONE, session);
    await page.getByRole("button", { name: "Changes and tasks" }).tap();
    await rows(page).tap();
    const dialog = page.getByRole("dialog", { name: "log.txt" });
    await dialog.locator(".diff:has(.removed) .added code").tap();
    await clean(page, "a file on a phone");
    await dialog.locator(".diff:has(.removed) .added .comment-line").tap();
    await written(page, "log.txt:2\n> +2\n");
    assert.equal(await page.locator("dialog").count(), 0);
  },
  "a rewind is refused while the agent works": async (server, screen) => {
    rmSync(join(server.project, "gate"), { force: true });
    const page = await screen.page(WIDE, session);
    await say(page, "wait at the gate");
    await until("the tool runs", () => existsSync(join(server.project, "began-gate")));
    await page.locator(".item.prompt").nth(1).hover();
    await page.getByRole("button", { name: "Rewind to before this message" }).nth(1).click();
    const dialog = page.getByRole("dialog", { name: "Rewind to before this message" });
    await dialog.getByText("The agent is working").waitFor();
    assert.equal(await dialog.getByRole("button", { name: "Rewind" }).isDisabled(), true);
    await page.keyboard.press("Escape");
    writeFileSync(join(server.project, "gate"), "");
    await idle(page);
  },
  "a rewind restores files and conversation": async (server, screen) => {
    const page = await screen.page(WIDE, session);
    await page.getByRole("button", { name: "Rewind to before this message" }).nth(1).focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Rewind to before this message" });
    await dialog.getByText("1 file would be restored").waitFor();
    assert.match(await dialog.textContent(), /change the log.*log\.txt/s);
    await clean(page, "rewind");
    await dialog.getByRole("button", { name: "Rewind" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.waitForFunction(() => /link rewound the files and the conversation/.test(document.querySelector(".log")?.textContent ?? ""));
    assert.equal(log(server), "one\ntwo\nthree\n");
    assert.equal(await composer(page).inputValue(), "change the log", "to be edited");
    // The agent forgot that prompt, so it cannot be gone back to again.
    await composer(page).fill("");
    await page.getByRole("button", { name: "Rewind to before this message" }).nth(1).focus();
    await page.keyboard.press("Enter");
    await dialog.getByText(/cannot be restored|No file has changed/).waitFor();
    assert.equal(await dialog.getByRole("radio", { name: /Files only/ }).isDisabled(), true);
    await page.keyboard.press("Escape");
  },
} });
