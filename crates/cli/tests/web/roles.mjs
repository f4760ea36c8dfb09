// Two browsers with two roles on one session: one drives, the other only watches. Both see the same.
import { assert, clean, DESKTOP, idle, PHONE, say, shown, steps, until } from "./fixture.mjs";

let session, driver, watcher, token;
const card = (page) => page.locator("section.request");

await steps({
  options: { demo: true },
  steps: {
    "who watches sees the request, and cannot answer it": async (server, screen) => {
      session = await server.session();
      ({ token } = await server.ask("POST", "/tokens", { name: "wall", role: "watch" }));
      driver = await screen.page(DESKTOP, session);
      watcher = await screen.page(PHONE, session, token);
      await say(driver, "Give me a tour");
      await card(driver).waitFor();
      await watcher.getByText("Waiting for your answer").or(watcher.getByText("Waiting for an answer")).first().waitFor();
      await clean(watcher, "a page that only watches");
      assert.equal(await watcher.getByRole("button", { name: /Allow|Deny|Always|Review/ }).count(), 0);
      assert.ok(!(await watcher.locator(".composer textarea").isVisible()), "there is no message field");
      const views = await watcher.getByRole("navigation", { name: "Views of this session" }).getByRole("link").allTextContents();
      assert.deepEqual(views.filter((it) => /Files|Git|Terminal/.test(it)), [], "files, git and shells are not for those who only watch");
    },
    "keys and addresses do not help": async () => {
      for (const key of ["y", "a", "e", "n", "d", "1", "Escape", "r"]) await watcher.keyboard.press(key);
      for (const view of ["files", "git", "terminal"]) {
        await watcher.evaluate((hash) => (location.hash = hash), `#/s/${session}/${view}`);
        await watcher.waitForFunction(() => document.querySelector(".log")?.checkVisibility());
      }
      assert.equal(await card(driver).count(), 1, "the request still waits");
    },
    "the server refuses what the page does not offer": async (server) => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const request = await card(driver).getAttribute("data-request");
      for (const [method, path, body] of [
        ["POST", `/sessions/${session}/prompts`, { id: "00000000-0000-4000-8000-000000000009", text: "rm" }],
        ["POST", `/sessions/${session}/requests/${request}`, { decision: "allow" }],
        ["POST", `/sessions/${session}/interrupt`, {}],
        ["POST", `/sessions/${session}/terminals`, {}],
        ["GET", `/sessions/${session}/files/content?path=notes.md`, undefined],
        ["GET", `/sessions/${session}/git/status`, undefined],
      ]) {
        const answer = await fetch(`${server.address}/api/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
        assert.ok([403, 404, 405].includes(answer.status), `${method} ${path}: ${answer.status}`);
      }
    },
    "the answer of one is seen by both, and both end equal": async () => {
      for (;;) {
        await driver.waitForFunction(() => document.querySelector("section.request") || document.querySelector(".status .doing")?.textContent?.startsWith("Ready"));
        const kind = await card(driver).getAttribute("data-kind", { timeout: 500 }).catch(() => null);
        if (!kind) {
          if ((await driver.textContent(".log")).includes("the end of the tour")) break;
          continue;
        }
        const id = await card(driver).getAttribute("data-request");
        if (kind === "permission") await card(driver).getByRole("button", { name: /Allow once/ }).click();
        else if (kind === "plan") await card(driver).getByRole("button", { name: /Accept edits/ }).click();
        else {
          await card(driver).locator(".choice").first().click();
          await card(driver).locator(".choice").nth(1).click();
          await card(driver).getByRole("button", { name: "Answer" }).click();
        }
        for (const page of [driver, watcher]) await page.waitForFunction((id) => document.querySelector("section.request")?.dataset.request !== id, id);
      }
      await idle(driver);
      await idle(watcher);
      assert.deepEqual(await shown(watcher), await shown(driver));
    },
    "a revoked token ends what is shown": async (server) => {
      await server.ask("DELETE", "/tokens/wall");
      await until("the sign-in is shown", () => watcher.locator(".sign-in").isVisible());
    },
  },
});
