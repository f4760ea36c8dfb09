// The pages around the real CLI, which is asked what the player is asked elsewhere.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { agree, assert, DESKTOP, idle, PHONE, say, shown, steps, until } from "./fixture.mjs";

const says = (page, words) => page.waitForFunction((words) => document.querySelector(".log")?.textContent?.includes(words), words, { timeout: 40_000 });
const card = (page) => page.locator("section.request");

await steps({ options: { claude: process.env.CLAUDE }, steps: {
  "words, a reload, and a server that is killed in mid-turn": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    await say(page, "tell the long story");
    await says(page, "w30 ");
    await page.reload();
    await says(page, "w60 ");
    const again = await server.crash();
    await page.waitForFunction(() => !document.querySelector(".banner")?.hidden);
    await again();
    await says(page, "w240");
    await idle(page);
    const words = (await shown(page)).join(" ").match(/\bw\d+\b/g);
    assert.deepEqual(words, Array.from({ length: 240 }, (_, n) => `w${n + 1}`));
    await agree(server, page, session);
    assert.equal(await page.locator(".entry > .item.prompt").count(), 1);
  },
  "a permission in two browsers, and a question by key": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    await say(page, "make a file");
    await card(page).waitFor({ timeout: 40_000 });
    const phone = await screen.page(PHONE, session);
    await card(phone).getByRole("button", { name: /Allow once/ }).tap();
    await says(page, "It is made.");
    assert.equal(await card(page).count(), 0);
    await idle(page);
    await say(page, "ask me");
    await card(page).waitFor();
    await card(page).focus();
    await page.waitForTimeout(400);
    for (const key of ["1", "2", "Enter"]) await page.keyboard.press(key);
    await card(page).waitFor({ state: "detached" });
    await idle(page);
    assert.match(await page.locator(".item.call.ask .chosen").first().textContent(), /Upstream/);
    await agree(server, page, session);
  },
  "files and conversation are put back": async (server, screen) => {
    const session = await server.session({ allowed_tools: ["Write", "Edit"] });
    const page = await screen.page(DESKTOP, session);
    const log = () => readFileSync(join(server.project, "log.txt"), "utf8");
    for (const words of ["write the log", "change the log"]) {
      await say(page, words);
      await until(words, async () => (await server.texts(session)).length === (words.startsWith("write") ? 1 : 2), 40_000);
      await idle(page);
    }
    assert.equal(log(), "one\n2\nthree\n");
    await page.getByRole("button", { name: "Rewind to before this message" }).nth(1).focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Rewind to before this message" });
    await dialog.getByText("1 file would be restored").waitFor();
    await dialog.getByRole("button", { name: "Rewind" }).click();
    await says(page, "rewound the files and the conversation");
    assert.equal(log(), "one\ntwo\nthree\n");
  },
} });
