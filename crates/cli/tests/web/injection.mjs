import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { assert, composer, DESKTOP, idle, say, steps, until } from "./fixture.mjs";

const EVIL = "<img src=x onerror=window.hurt=41><script>window.hurt=42</script>";
const harmless = async (page) => {
  assert.equal(await page.evaluate(() => window.hurt), undefined, "nothing ran");
  const made = await page.evaluate(() => [...document.querySelectorAll("#app script, #app [onerror], #app [onclick], #app [onload], #app img[src=x], #app svg[onload]")].map((it) => it.outerHTML));
  assert.deepEqual(made, [], "nothing became markup");
  const links = await page.evaluate(() => [...document.querySelectorAll("#app a")].map((it) => it.getAttribute("href")).filter((it) => /^\s*javascript:/i.test(it ?? "")));
  assert.deepEqual(links, []);
};

await steps({ steps: {
  "in prompts, answers and Markdown": async (server, screen) => {
    const session = await server.session({ title: EVIL });
    const page = await screen.page(DESKTOP, session);
    assert.equal(await page.textContent(".bar h1"), EVIL);
    await say(page, `be hostile ${EVIL}`);
    await until("it is written", async () => (await server.texts(session)).length === 1);
    await idle(page);
    for (const link of await page.locator(".item.text a").all()) assert.match((await link.getAttribute("href")) ?? "", /^(https?:|mailto:|#)/);
    await harmless(page);
  },
  "in tools, their descriptions and their output": async (server, screen) => {
    const session = await server.session({ allowed_tools: ["Bash"] });
    const page = await screen.page(DESKTOP, session);
    await say(page, "hostile tool");
    await page.waitForSelector(".item.call.run.done");
    await idle(page);
    await page.locator(".item.call.run summary").first().click();
    assert.match(await page.textContent(".item.call.run .output"), /<script>window\.hurt=11/);
    await page.locator(".entry:has(> .call) > .raw-button").first().click();
    await page.waitForSelector("dialog .raw-lines");
    await harmless(page);
  },
  "in the names of files and what asks for them": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    await say(page, "hostile file");
    await page.waitForSelector("section.request");
    await harmless(page);
    await page.getByRole("button", { name: /Allow once/ }).first().click();
    await page.waitForSelector(".item.call.edit.done");
    await idle(page);
    await harmless(page);
    await composer(page).pressSequentially("@img");
    await page.waitForSelector("#completion [role=option]");
    await harmless(page);
  },
  "in questions": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    await say(page, "hostile question");
    await page.waitForSelector("section.request");
    await harmless(page);
    await page.locator("section.request .choice").first().click();
    await page.waitForSelector("section.request", { state: "detached" });
    await harmless(page);
  },
  "in the names of directories": async (server, screen) => {
    mkdirSync(join(server.project, "<img src=x onerror=window.hurt=51>"), { recursive: true });
    const page = await screen.page(DESKTOP);
    await page.getByRole("button", { name: "New session" }).first().click();
    await page.getByRole("dialog").getByLabel("Directory", { exact: true }).fill(server.project);
    await page.getByRole("dialog").getByLabel("First message").focus();
    await page.waitForFunction(() => document.querySelector(".suggestions")?.textContent?.includes("onerror"));
    await harmless(page);
  },
  "and the page forbids it besides": async (server, screen) => {
    const page = await screen.page(DESKTOP);
    const head = await (await fetch(server.address)).headers.get("content-security-policy");
    assert.match(head, /script-src 'self'|default-src 'self'|default-src 'none'/);
    assert.doesNotMatch(head, /unsafe-inline|unsafe-eval/);
    // Only the page's own policy creates markup, and no other policy can be created.
    const refused = await page.evaluate(() => ["<b>x</b>", ""].map((html, n) => {
      try {
        if (n) window.trustedTypes.createPolicy("other", {});
        else document.createElement("div").innerHTML = html;
      } catch (problem) {
        return problem.name;
      }
      return "nothing";
    }));
    assert.deepEqual(refused, ["TypeError", "TypeError"]);
    const ran = await page.evaluate(() => {
      const script = document.createElement("script");
      script.text = "window.hurt = 61";
      document.body.append(script);
      return window.hurt;
    }).catch(() => undefined);
    assert.equal(ran, undefined);
    screen.faults.length = 0;
  },
} });
