// A session of a fleet is moved from the page: from a worker that is connected, and from one that is away.
import { assert, DESKTOP, until } from "./fixture.mjs";
import { session, stubbedSteps } from "./stub-api.mjs";

const worker = (name, connected) => ({ name, pool: null, slots: 4, used: 0, roots: ["/home/me"], version: "0.1.0", connected, away_since: null, sessions: 1 });
// One that was away before the gateway started, which cannot know since when.
const WORKERS = [worker("w1", true), worker("w2", true), worker("w3", false)];
const on = (more) => session({ worker: "w1", worker_away: false, worker_away_since: null, problem: null, ...more });

const inFleet = async (open, more) => {
  const stubbed = await open(DESKTOP);
  stubbed.me.fleet = true;
  stubbed.replies = { "GET /workers": { connection_lost_since: null, workers: WORKERS } };
  await stubbed.reload();
  await stubbed.show({}, [on(more)]);
  return stubbed;
};

const moves = (stubbed) => stubbed.calls.filter((it) => it.method === "POST" && it.path === "/move").map((it) => it.body);

/** What the dialog offers. */
const offered = async (page) => {
  await page.waitForSelector("dialog[open] option", { state: "attached" });
  return page.$$eval("dialog[open] option", (all) => all.map((it) => it.value));
};

await stubbedSteps({
  "a session of a connected worker is moved by the menu, to another one that is connected": async (open) => {
    const stubbed = await inFleet(open);
    const { page } = stubbed;
    assert.equal(await page.locator(".banner").isVisible(), false);
    await page.getByRole("button", { name: "Session menu" }).click();
    await page.getByRole("menuitem", { name: /^Move to another worker/ }).click();
    assert.deepEqual(await offered(page), ["w2"]);
    await page.getByRole("button", { name: "Move", exact: true }).click();
    await page.waitForSelector("dialog[open]", { state: "detached" });
    assert.deepEqual(moves(stubbed), [{ to: "w2" }]);
  },
  "a session of a worker that is away is taken over by the banner": async (open) => {
    const stubbed = await inFleet(open, { worker: "w3", worker_away: true, problem: "worker `w3` is not connected" });
    const { page } = stubbed;
    await page.getByRole("button", { name: "Take over on…" }).click();
    assert.deepEqual(await offered(page), ["w1", "w2"]);
    await page.locator("dialog select").selectOption("w2");
    await page.getByRole("button", { name: "Take over", exact: true }).click();
    await page.waitForSelector("dialog[open]", { state: "detached" });
    assert.deepEqual(moves(stubbed), [{ to: "w2" }]);
  },
  "without another worker nothing can be pressed": async (open) => {
    const stubbed = await inFleet(open);
    stubbed.replies = { "GET /workers": { connection_lost_since: null, workers: [WORKERS[0], WORKERS[2]] } };
    const { page } = stubbed;
    await page.getByRole("button", { name: "Session menu" }).click();
    await page.getByRole("menuitem", { name: /^Move to another worker/ }).click();
    await page.getByText("No other worker is connected.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Move", exact: true }).isDisabled(), true);
  },
  "a gateway that has lost its fleet says so": async (open) => {
    const text = "this gateway has no connection to the fleet's servers";
    const stubbed = await inFleet(open, { problem: text });
    await until("the banner", () => stubbed.page.locator(".banner").textContent().then((it) => it.includes(text)));
    assert.equal(await stubbed.page.getByRole("button", { name: "Take over on…" }).count(), 0);
  },
});
