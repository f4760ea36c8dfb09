import { existsSync } from "node:fs";
import { join } from "node:path";
import { assert, clean, composer, DESKTOP, idle, PHONE, say, steps, until } from "./fixture.mjs";

const card = (page) => page.locator("section.request");
const says = (page, words) => page.waitForFunction((words) => document.querySelector(".log")?.textContent?.includes(words), words);

/** Keys are accepted a moment after the card appeared, and only outside of fields. */
async function press(page, ...keys) {
  await card(page).focus();
  await page.waitForTimeout(400);
  for (const key of keys) await page.keyboard.press(key);
}

async function asked(server, screen, words, kind = DESKTOP) {
  const session = await server.session();
  const page = await screen.page(kind, session);
  await say(page, words);
  if (kind === PHONE) await page.locator(".send").tap();
  await card(page).waitFor();
  return { session, page };
}

await steps({ steps: {
  "a permission is given by click": async (server, screen) => {
    const { page } = await asked(server, screen, "make a file");
    assert.match(await card(page).textContent(), /echo made it > made\.txt/);
    await card(page).getByRole("button", { name: /Allow once/ }).click();
    await says(page, "It is made.");
    assert.ok(existsSync(join(server.project, "made.txt")));
    assert.equal(await card(page).count(), 0);
  },
  "a permission is given by key, but never by a key that is typed": async (server, screen) => {
    const { page } = await asked(server, screen, "make a file");
    await composer(page).click();
    await page.waitForTimeout(400);
    await page.keyboard.type("yan");
    assert.equal(await composer(page).inputValue(), "yan");
    assert.equal(await card(page).count(), 1, "typing answers nothing");
    await composer(page).fill("");
    await press(page, "y");
    await says(page, "It is made.");
  },
  "a permission is denied with a reason": async (server, screen) => {
    const { page } = await asked(server, screen, "make a file");
    await press(page, "d");
    await page.keyboard.type("rather not");
    await page.keyboard.press("Enter");
    await says(page, "Then I leave it.");
    await idle(page);
    const denied = page.locator(".item.call.denied");
    assert.equal(await denied.count(), 1, "the result of the turn, which lists it, changes nothing about it");
    assert.doesNotMatch(await denied.textContent(), /✔/);
    assert.match(await denied.textContent(), /⊘.*Denied by link.*rather not/s);
  },
  "a permission is remembered": async (server, screen) => {
    const { page, session } = await asked(server, screen, "make a file");
    await press(page, "a");
    assert.deepEqual(await card(page).locator(".request-rule").allTextContents(), ["Run exactly this command"]);
    await page.keyboard.press("a");
    await says(page, "It is made.");
    await idle(page);
    await say(page, "make a file again");
    await until("it is made twice", async () => (await server.texts(session)).filter((it) => it === "It is made.").length === 2);
    assert.equal(await card(page).count(), 0, "it does not ask again");
    await idle(page);
    await page.getByRole("button", { name: "Session menu" }).click();
    await page.getByRole("menuitem", { name: /Always allowed/ }).click();
    const dialog = page.getByRole("dialog", { name: "Always allowed" });
    const grant = dialog.locator("li[data-grant]");
    await grant.waitFor();
    assert.match(await grant.textContent(), /Bash.*made\.txt.*In this session.*until it is revoked.*Allowed by link \(browser on \w+\)/s);
    await clean(page, "grants");
    await grant.getByRole("button", { name: /Revoke/ }).press("Enter");
    await grant.waitFor({ state: "detached" });
    assert.deepEqual((await server.ask("GET", `/sessions/${session}/grants`)).grants, []);
    await page.keyboard.press("Escape");
    await say(page, "make a file once more");
    await card(page).waitFor();
    await card(page).getByRole("button", { name: /Deny/ }).first().click();
  },
  "a long command is seen in full before it can be allowed, and the composer stays visible": async (server, screen) => {
    for (const kind of [DESKTOP, PHONE]) {
      const { page } = await asked(server, screen, "run a long command", kind);
      const allow = card(page).getByRole("button", { name: /Allow once/ });
      assert.equal(await allow.isDisabled(), true);
      await press(page, "y");
      const command = await card(page).locator(".given.command").textContent();
      assert.equal(command.split("\n").length, 40);
      const [cardBox, composerBox] = [await card(page).boundingBox(), await composer(page).boundingBox()];
      assert.ok(cardBox.y >= 0 && cardBox.y + cardBox.height <= composerBox.y, JSON.stringify([cardBox, composerBox]));
      const buttonBox = await allow.boundingBox();
      assert.ok(buttonBox.y + buttonBox.height <= cardBox.y + cardBox.height, "the buttons are inside the card");
      await until("it can be allowed", async () => !(await allow.isDisabled()));
      await clean(page, "a long command");
      await card(page).getByRole("button", { name: /^Deny/ }).first().click();
      await card(page).waitFor({ state: "detached" });
    }
  },
  "questions are answered by key": async (server, screen) => {
    const { page, session } = await asked(server, screen, "ask me");
    await press(page, "2");
    await page.waitForFunction(() => document.querySelector(".request")?.textContent?.includes("What to take?"));
    await page.keyboard.press("1");
    await page.keyboard.press("3");
    await page.keyboard.press("Enter");
    await says(page, "So be it.");
    const answer = JSON.stringify(await server.lines(session));
    assert.match(answer, /Downstream/);
    assert.match(answer, /Rope, Map/);
    assert.match(await page.locator(".item.call.ask .chosen").first().textContent(), /Downstream/);
  },
  "questions are answered by touch and in one's own words": async (server, screen) => {
    const { page, session } = await asked(server, screen, "ask me", PHONE);
    await card(page).getByRole("radio", { name: /Upstream/ }).tap();
    await page.waitForFunction(() => document.querySelector(".request")?.textContent?.includes("What to take?"));
    await card(page).getByRole("checkbox", { name: /Tea/ }).tap();
    await card(page).getByLabel("Your own answer").fill("a lantern");
    await card(page).getByRole("button", { name: "Answer" }).tap();
    await says(page, "So be it.");
    assert.match(JSON.stringify(await server.lines(session)), /Tea, a lantern/);
    const chosen = await page.locator(".item.call.ask .chosen").allTextContents();
    assert.deepEqual(chosen.map((it) => it.split(" ")[0]), ["Upstream", "Tea", "a"], "what was written is shown beside what was chosen");
  },
  "a plan is approved by key and sent back by click": async (server, screen) => {
    const session = await server.session({ mode: "plan" });
    const page = await screen.page(DESKTOP, session);
    await say(page, "propose something");
    await card(page).waitFor();
    assert.match(await card(page).locator("ol").textContent(), /Open the gates/);
    await card(page).getByRole("button", { name: /Keep planning/ }).click();
    await page.keyboard.type("more detail");
    await page.keyboard.press("Enter");
    await says(page, "I plan again.");
    await idle(page);
    await say(page, "propose again");
    await card(page).waitFor();
    await press(page, "a");
    await says(page, "I heard you.");
    await page.waitForFunction(() => document.querySelector(".status .chip-button")?.textContent === "Accept edits");
  },
  "one request in two browsers is answered once, and the other is informed": async (server, screen) => {
    const { page, session } = await asked(server, screen, "make a file");
    const other = await screen.page(PHONE, session);
    await card(other).waitFor();
    await card(page).getByRole("button", { name: /Allow once/ }).click();
    await card(other).waitFor({ state: "detached" });
    await other.waitForFunction(() => /allowed by/.test(document.querySelector(".toasts")?.textContent ?? ""));
    await says(other, "It is made.");
    const { entries } = await server.ask("GET", `/sessions/${session}/ledger`);
    assert.equal(entries.length, 1);
    // What the browser said of itself when it signed in.
    assert.match(entries[0].resolution.by.via, /^browser on (Linux|Mac|Windows)$/);
    await other.waitForFunction(() => /allowed by you, on (Linux|Mac|Windows)/.test(document.querySelector(".toasts")?.textContent ?? ""));
    await page.getByRole("button", { name: "Session menu" }).click();
    await page.getByRole("menuitem", { name: /Permission history/ }).click();
    assert.match(await page.getByRole("dialog", { name: "Permission history" }).locator("tbody").textContent(), /you, on (Linux|Mac|Windows)/);
    await page.keyboard.press("Escape");
    assert.match(await page.locator(".item.call .remark").first().textContent(), /Allowed by link, on (Linux|Mac|Windows)/);
  },
  "a request outlives a reload, is in the title, and w goes to it": async (server, screen) => {
    const { page } = await asked(server, screen, "make a file");
    await page.reload();
    await card(page).waitFor();
    await page.waitForFunction(() => /^\(\d+\)/.test(document.title) && document.querySelector("link[rel=icon]").href.includes("needs"));
    const other = await server.session();
    await screen.show(page, other);
    await page.waitForSelector(".tier.needs");
    await composer(page).press("Escape");
    await page.keyboard.press("w");
    await card(page).waitFor();
    await card(page).getByRole("button", { name: /Deny/ }).first().click();
    await card(page).waitFor({ state: "detached" });
  },
} });
