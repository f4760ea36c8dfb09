// Prompts that are sent later, from the page to the agent and back.
import { assert, clean, composer, DESKTOP, idle, PHONE, steps, until } from "./fixture.mjs";

async function openSchedule(page) {
  await page.getByRole("button", { name: "Session menu" }).click();
  await page.getByRole("menuitem", { name: /^Send later/ }).click();
  await page.getByRole("dialog", { name: "Send later" }).waitFor();
}

await steps({ steps: {
  "a message is scheduled, shown everywhere, and removed": async (server, screen) => {
    const session = await server.session({});
    const page = await screen.page(DESKTOP, session);
    const other = await screen.page(PHONE, session);
    await idle(page);
    await composer(page).fill("say hello later");
    await openSchedule(page);
    assert.equal(await page.locator("dialog textarea").inputValue(), "say hello later");
    await page.locator("dialog select").selectOption("weekdays");
    await page.locator("dialog input[type=time]").fill("09:30");
    await page.getByRole("button", { name: "Schedule", exact: true }).click();
    await page.locator(".schedules li").filter({ hasText: "Weekdays 09:30" }).waitFor();
    await clean(page, "the dialog with one schedule");
    await page.keyboard.press("Escape");
    assert.equal(await composer(page).inputValue(), "", "what is sent later is not sent now too");
    // The other browser sees it, and removes it.
    await other.getByRole("button", { name: "1 scheduled" }).click();
    await other.locator(".schedules li").filter({ hasText: "say hello later" }).waitFor();
    await clean(other, "the dialog on a phone");
    await other.getByRole("button", { name: /^Remove/ }).click();
    await other.getByText("Nothing is scheduled in this session.").waitFor();
    await page.getByRole("button", { name: "1 scheduled" }).waitFor({ state: "hidden" });
    assert.equal((await server.texts(session)).length, 0);
  },
  "what is no time is refused, and what was written stays": async (server, screen) => {
    const page = await screen.page(DESKTOP, await server.session({}));
    await idle(page);
    await openSchedule(page);
    await page.locator("dialog textarea").fill("do it");
    await page.locator("dialog select").selectOption("every");
    await page.locator("dialog input[type=text]").fill("1s");
    await page.getByRole("button", { name: "Schedule", exact: true }).click();
    await page.locator("dialog .form-error").filter({ hasText: "too often" }).waitFor();
    assert.equal(await page.locator("dialog textarea").inputValue(), "do it");
    await page.locator("dialog input[type=text]").fill("30m");
    await page.keyboard.press("Enter");
    await page.locator(".schedules li").filter({ hasText: "Every 30m" }).waitFor();
    await until("the notice is there", () => page.locator(".log").textContent().then((it) => it.includes("scheduled a prompt: every 30m")));
  },
} });
