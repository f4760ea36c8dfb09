// An agent that cannot be started, and what the user can do about it.
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { assert, DESKTOP, idle, PHONE, say, steps, until } from "./fixture.mjs";

const { SCRATCH, TOWPATH } = process.env;
const agent = join(SCRATCH, "agent");
const repaired = join(SCRATCH, "repaired");
process.env.TOWPATH_PLAY_SCENARIO = fileURLToPath(new URL("page.scenario", import.meta.url));
writeFileSync(agent, `#!/bin/sh\n[ -e '${repaired}' ] || { echo 'its settings cannot be read' >&2; exit 1; }\nexec '${TOWPATH}' play "$@"\n`);
chmodSync(agent, 0o755);

/** Towpath starts a failing agent four times before it waits for the user. */
const ATTEMPTS = 4;
async function givenUp(page, times) {
  const failures = () => page.locator(".log .note.error").count();
  await until("the agent failed often enough", async () => (await failures()) >= times * ATTEMPTS, 60_000);
  await page.locator(".failure").waitFor();
}

await steps({ options: { claude: agent }, steps: {
  "the reason is shown, and the message is sent once the agent can be started": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    const phone = await screen.page(PHONE, session);
    await say(page, "hello");
    const failure = page.locator(".failure");
    await givenUp(page, 1);
    assert.match(await failure.textContent(), /The agent exited with code 1/);
    assert.match(await page.locator(".log").textContent(), /its settings cannot be read/);
    assert.equal(await page.locator(".queued-prompts li").count(), 1, "the message waits");
    await phone.locator(".failure").waitFor();
    writeFileSync(repaired, "");
    await failure.getByRole("button", { name: "Try again" }).click();
    await until("it is answered", async () => (await server.texts(session)).includes("I heard you."), 40_000);
    await idle(page);
    await failure.waitFor({ state: "hidden" });
    assert.equal(await server.given(session, "hello"), 1);
    assert.equal(await page.locator(".queued-prompts li").count(), 0);
    // The same with an agent that ran before.
    rmSync(repaired);
    await server.ask("POST", `/sessions/${session}/close`);
    await say(page, "hello again");
    await givenUp(page, 2);
    writeFileSync(repaired, "");
    await failure.getByRole("button", { name: "Try again" }).click();
    await until("it is answered", async () => (await server.texts(session)).length === 2, 40_000);
    assert.equal(await server.given(session, "hello again"), 1);
  },
} });
