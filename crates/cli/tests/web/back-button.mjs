// The back button closes what lies above the page, one after the other, and sheets have addresses.
import { assert, composer, DESKTOP, PHONE, until } from "./fixture.mjs";
import { diffHtml, item, session, stubbedSteps } from "./stub-api.mjs";

const OTHER = "22222222-2222-4222-8222-222222222222";
const two = () => [session(), session({ id: OTHER, title: "Another" })];
const back = (page) => page.evaluate(() => history.back());
const forward = (page) => page.evaluate(() => history.forward());
const hash = (page) => page.evaluate(() => location.hash);
const dialog = (page, name) => page.getByRole("dialog", { name, exact: true });
const gone = (locator) => locator.waitFor({ state: "detached" });
const otherIsShown = (page) => page.waitForSelector(`[data-session="${OTHER}"][aria-current=page]`, { state: "attached" });
/** Gives the browser time for what it may still do. */
const calm = (page) => page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 150)));
const openMenu = async (page, name) => {
  await page.getByRole("button", { name: "Session menu" }).click();
  await page.getByRole("menu").waitFor();
  if (name) await page.getByRole("menuitem", { name }).click();
};
/** Browsers such as Firefox and Safari have none. */
const withoutCloseWatcher = () => delete window.CloseWatcher;
const MANY = Array.from({ length: 800 }, (_, n) => `line ${n}`).join("\n");
const changed = () => ({
  items: [item(`<div class="item text"><p>Done</p></div>`)],
  turns: [{ number: 1, first: 1, rev: 1, files: [{ path: "/home/me/shop/src/what? & 100%.ts", edits: 1 }], prompts: [], rewound: false, end: { ending: "completed" }, tokens: {}, html: "" }],
});
const diffs = { "GET /turns/1/files": { files: [{ path: "/home/me/shop/src/what? & 100%.ts", added: 800, removed: 800, html: diffHtml(MANY) }] } };

const steps = {
  "a dialog closes, and what lies under it stays": async (open) => {
    for (const [kind, init] of [[DESKTOP, undefined], [PHONE, withoutCloseWatcher]]) {
      const stubbed = await open(kind, init);
      const { page } = stubbed;
      await stubbed.show({}, two());
      await page.evaluate((id) => (location.hash = `#/s/${id}`), OTHER);
      await otherIsShown(page);
      await openMenu(page, "Rename");
      await dialog(page, "Rename session").waitFor();
      await back(page);
      await gone(dialog(page, "Rename session"));
      await calm(page);
      assert.equal(await hash(page), `#/s/${OTHER}`, "the session under it is the same");
      await back(page);
      await page.waitForFunction((id) => !location.hash.includes(id), OTHER);
    }
  },
  "drawer, menu and dialogs close one by one, the topmost first": async (open) => {
    const stubbed = await open(PHONE, withoutCloseWatcher);
    const { page } = stubbed;
    await stubbed.show({}, two());
    const before = await hash(page);
    await page.getByRole("button", { name: "Sessions", exact: true }).click();
    await page.locator(".sidebar.open").waitFor();
    await page.getByRole("button", { name: "Settings" }).click();
    await dialog(page, "Settings").waitFor();
    await back(page);
    await gone(dialog(page, "Settings"));
    assert.equal(await page.locator(".sidebar.open").count(), 1, "the drawer is still open");
    await back(page);
    await gone(page.locator(".sidebar.open"));
    await openMenu(page);
    await page.getByRole("menu").waitFor();
    await back(page);
    await gone(page.getByRole("menu"));
    await calm(page);
    assert.equal(await hash(page), before);
    await composer(page).waitFor();
  },
  "closing in another way leaves no entry behind": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    await stubbed.show({}, two());
    await page.evaluate((id) => (location.hash = `#/s/${id}`), OTHER);
    await otherIsShown(page);
    for (const close of [() => page.keyboard.press("Escape"), () => page.getByRole("button", { name: "Close" }).click()]) {
      await openMenu(page, "Rename");
      await dialog(page, "Rename session").waitFor();
      await close();
      await gone(dialog(page, "Rename session"));
    }
    await openMenu(page);
    await page.keyboard.press("Escape");
    await gone(page.getByRole("menu"));
    await until("the address is that of the session", async () => (await hash(page)) === `#/s/${OTHER}`);
    await calm(page);
    await back(page);
    await page.waitForFunction((id) => !location.hash.includes(id), OTHER);
  },
  "a link in the drawer leads to its session, and back to the one before": async (open) => {
    const stubbed = await open(PHONE);
    const { page } = stubbed;
    await stubbed.show({}, two());
    const first = await hash(page);
    await page.getByRole("button", { name: "Sessions", exact: true }).click();
    await page.locator(`[data-session="${OTHER}"]`).click();
    await otherIsShown(page);
    await gone(page.locator(".sidebar.open"));
    await back(page);
    await until("the first is shown", async () => (await hash(page)) === first);
    await calm(page);
    assert.equal(await page.locator(".sidebar.open").count(), 0);
    await forward(page);
    await otherIsShown(page);
  },
  "a session that is chosen or created in a dialog is one step away": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    stubbed.replies = { "POST /sessions": { id: OTHER } };
    await stubbed.show({}, two());
    const first = await hash(page);
    const choose = {
      chosen: async () => {
        await page.keyboard.press("Control+k");
        await page.getByRole("combobox").fill("Another");
        await page.keyboard.press("Enter");
      },
      created: async () => {
        await page.getByRole("button", { name: "New session" }).first().click();
        await dialog(page, "New session").waitFor();
        // The dialog goes to the new session and closes itself.
        await page.evaluate((id) => {
          location.hash = `#/s/${id}`;
          document.querySelector("dialog").close();
        }, OTHER);
      },
    };
    for (const [how, act] of Object.entries(choose)) {
      await act();
      await otherIsShown(page);
      await gone(page.getByRole("dialog"));
      await calm(page);
      await back(page);
      await until(`${how}: the first is shown`, async () => (await hash(page)) === first);
      await calm(page);
      assert.equal(await page.getByRole("dialog").count(), 0, how);
      assert.equal(await hash(page), first, how);
    }
  },
  "sheets have addresses: a reload keeps them, forward opens them again, a link leads to them": async (open) => {
    for (const kind of [DESKTOP, PHONE]) {
      const stubbed = await open(kind);
      const { page } = stubbed;
      stubbed.replies = diffs;
      await stubbed.show(changed(), two());
      const base = await hash(page);
      const sheets = {
        Settings: "settings", "Keyboard shortcuts": "help", "About the agent": "agent", "Session settings": "session-settings", "Permission history": "permissions",
        "Always allowed": "grants", "Access tokens": "tokens", "New session": "new", "Continue with another agent": "handover",
        "src/what? & 100%.ts": `file/${encodeURIComponent("/home/me/shop/src/what? & 100%.ts")}/1`,
      };
      for (const [title, sheet] of Object.entries(sheets)) {
        await page.evaluate((address) => (location.hash = address), `${base}?sheet=${sheet}`);
        await dialog(page, title).waitFor();
        if (title === "About the agent" || title.startsWith("src")) {
          await stubbed.reload();
          await dialog(page, title).waitFor();
        }
        assert.equal(await hash(page), `${base}?sheet=${sheet}`);
        await back(page);
        await gone(dialog(page, title));
        await until("the address says so", async () => (await hash(page)) === base);
        if (title === "Settings") {
          await forward(page);
          await dialog(page, title).waitFor();
          await page.keyboard.press("Escape");
          await gone(dialog(page, title));
          await until("the address says so", async () => (await hash(page)) === base);
        }
        await calm(page);
      }
      await page.evaluate((address) => (location.hash = address), `${base}?sheet=nothing-like-it`);
      await until("an unknown one is forgotten", async () => (await hash(page)) === base);
      assert.equal(await page.getByRole("dialog").count(), 0);
    }
  },
  "what was opened by hand has the address, too": async (open) => {
    const stubbed = await open(PHONE);
    const { page } = stubbed;
    stubbed.replies = diffs;
    await stubbed.show(changed(), two());
    const base = await hash(page);
    await page.getByRole("button", { name: /^Changes and tasks/ }).click();
    await dialog(page, "Changes and tasks").waitFor();
    assert.equal(await hash(page), `${base}?sheet=changes`);
    await page.locator(".side-row").click();
    await page.locator("dialog .diff").waitFor();
    assert.match(await hash(page), /\?sheet=file\/.*what%3F/);
    await back(page);
    await gone(page.locator("dialog .diff"));
    await dialog(page, "Changes and tasks").waitFor();
    await back(page);
    await gone(dialog(page, "Changes and tasks"));
    await calm(page);
    assert.equal(await hash(page), base);
  },
  "what was entered is not discarded without asking": async (open) => {
    const stubbed = await open(PHONE);
    const { page } = stubbed;
    await stubbed.show({}, two());
    await openMenu(page, /Continue with another agent/);
    const form = dialog(page, "Continue with another agent");
    await form.locator("textarea").first().fill("many words");
    await back(page);
    const question = dialog(page, "Discard what you entered?");
    await question.waitFor();
    await back(page);
    await gone(question);
    assert.equal(await form.locator("textarea").first().inputValue(), "many words");
    await back(page);
    await question.getByRole("button", { name: "Discard" }).click();
    await gone(form);
    await calm(page);
    await composer(page).waitFor();
  },
  "a hundred menus opened and closed quickly leave one entry, and the place in the conversation stays": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    await stubbed.show({ items: Array.from({ length: 60 }, (_, n) => item(`<div class="item text"><p>Paragraph ${n}</p></div>`)) }, two());
    await page.evaluate((id) => (location.hash = `#/s/${id}`), OTHER);
    await otherIsShown(page);
    await page.waitForFunction(() => document.querySelectorAll(".entry").length === 60);
    await page.evaluate(() => scrollTo(0, 300));
    for (let n = 0; n < 100; n += 1) {
      await page.evaluate(() => document.querySelector("[aria-label='Session menu']").click());
      await page.waitForFunction(() => document.querySelector(".popover")?.matches(":popover-open"));
      await page.evaluate(() => document.querySelector(".popover").hidePopover());
      await page.waitForFunction(() => !document.querySelector(".popover"));
    }
    await calm(page);
    assert.equal(await page.evaluate(() => scrollY), 300);
    assert.equal(await hash(page), `#/s/${OTHER}`);
    await back(page);
    await page.waitForFunction((id) => !location.hash.includes(id), OTHER);
  },
};

await stubbedSteps(steps);
