// Sessions with agents of the Agent Client Protocol: a released one, and one that wants a sign-in.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, clean, composer, DESKTOP, idle, PHONE, say, steps, until } from "./fixture.mjs";

const { AGENT, SCRATCH, TOWPATH } = process.env;
const PLAYER = `command = ["${TOWPATH}", "play", "--acp", "--misbehave", "sign-in", "--sessions", "${join(SCRATCH, "stranger")}"]`;
mkdirSync(join(SCRATCH, ".config/towpath"), { recursive: true });
const released = AGENT ? `[agents.released]\ncommand = ["${AGENT}"]\ntitle = "A released agent"\n` : "";
const sign = `[agents.stranger]\n${PLAYER}\ntitle = "Stranger"\nsign_in = "run \`towpath play --acp --sign-in\`"\n`;
writeFileSync(join(SCRATCH, ".config/towpath/config.toml"), released + sign);
delete process.env.XDG_CONFIG_HOME;

const card = (page) => page.locator("section.request");
const log = (page) => page.locator(".log");
/** An agent on Node needs a minute to start on a busy machine. */
const LONG = { timeout: 180_000 };

/** The choices of the agent's latest request, as the agent wrote them. */
async function choices(server, session) {
  const asked = (await server.lines(session)).filter((line) => line.value.method === "session/request_permission");
  return asked.at(-1).value.params.options;
}

const signIn = {
  "an agent that wants a sign-in says how, and is tried again by click": async (server, screen) => {
    const session = await server.session({ agent: "stranger" });
    const page = await screen.page(DESKTOP, session);
    const phone = await screen.page(PHONE, session);
    await say(page, "hello stranger");
    const failure = page.locator(".failure");
    await failure.waitFor(LONG);
    assert.match(await log(page).textContent(), /Stranger needs you to sign in.*: run `towpath play --acp --sign-in`\. Then try again\./s);
    const card = await phone.locator(".failure").textContent();
    assert.match(card, /^Sign-in needed.*: run towpath play --acp --sign-in\. Then try again\./s);
    assert.match(card, /The agent offers:Sign in: Sign in to the player/, "the agent's own ways");
    assert.equal(await page.locator(".queued-prompts li").count(), 1, "the message waits");
    execFileSync(TOWPATH, ["play", "--acp", "--sign-in", "--sessions", join(SCRATCH, "stranger")]);
    await failure.getByRole("button", { name: "Try again" }).click();
    await page.waitForFunction(() => document.querySelector(".log")?.textContent?.includes("You said: hello stranger"), null, LONG);
    await idle(page);
    await failure.waitFor({ state: "hidden" });
    await clean(page, "signed in");
  },
};

const real = {
  "a released agent asks, and is answered by click with its own choice": async (server, screen) => {
    const session = await server.session({ agent: "released" });
    const page = await screen.page(DESKTOP, session);
    const phone = await screen.page(PHONE, session);
    await say(page, "make a file");
    await card(page).waitFor(LONG);
    assert.match(await card(page).textContent(), /made\.txt/);
    const offered = await choices(server, session);
    const once = offered.find((it) => it.kind === "allow_once");
    const button = card(page).locator(`button[data-choice="${once.optionId}"]`);
    assert.ok((await button.textContent()).includes(once.name), "the button has the agent's words");
    await card(phone).waitFor(LONG);
    await button.click();
    await until("the file is made", () => existsSync(join(server.project, "made.txt")), LONG.timeout);
    await page.waitForFunction(() => document.querySelector(".log")?.textContent?.includes("It is made."), null, LONG);
    await idle(page);
    assert.equal(await card(page).count(), 0);
    assert.equal(await card(phone).count(), 0, "answered for all browsers");
    assert.equal(await composer(page).inputValue(), "");
    await clean(page, "answered");
  },
};

await steps({ options: { demo: true }, steps: AGENT ? real : signIn });
