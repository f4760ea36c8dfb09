// An agent that cannot be started, and what the user can do about it.
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { assert, DESKTOP, idle, PHONE, say, steps, until } from "./fixture.mjs";

const { SCRATCH, TOWPATH } = process.env;
const agent = join(SCRATCH, "agent");
const repaired = join(SCRATCH, "repaired");
process.env.TOWPATH_PLAY_SCENARIO = fileURLToPath(new URL("page.scenario", import.meta.url));
writeFileSync(agent, `#!/bin/sh\n[ -e '${repaired}' ] || { echo 'its settings cannot be read' >&2; exit 1; }\nexec '${TOWPATH}' play "$@"\n`);
chmodSync(agent, 0o755);

await steps({ options: { claude: agent }, steps: {
  "the reason is shown, and the message is sent once the agent can be started": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    const phone = await screen.page(PHONE, session);
    await say(page, "hello");
    const failure = page.locator(".failure");
    await failure.waitFor({ timeout: 40_000 });
    assert.match(await failure.textContent(), /The agent exited with code 1/);
    assert.match(await page.locator(".log").textContent(), /its settings cannot be read/);
    assert.equal(await page.locator(".queued-prompts li").count(), 1, "the message waits");
    assert.equal(await phone.locator(".failure").isVisible(), true);
    writeFileSync(repaired, "");
    await failure.getByRole("button", { name: "Try again" }).click();
    await until("it is answered", async () => (await server.texts(session)).includes("I heard you."), 40_000);
    await idle(page);
    await failure.waitFor({ state: "hidden" });
    assert.equal(await server.given(session, "hello"), 1);
    assert.equal(await page.locator(".queued-prompts li").count(), 0);
  },
} });
