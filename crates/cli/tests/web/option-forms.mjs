// The form of a new session, the settings of a session and the sheet about the agent, against a stub of the
// API: what is sent, what is refused and where that is shown.
import { assert, clean, DESKTOP, PHONE, steps, until } from "./fixture.mjs";
import { item, StubbedPage, callHtml } from "./stub-api.mjs";
import { agentReply, asDriver, OPTIONS, optionsReply, profiles, project, values, watchLog } from "./stub-options.mjs";

const open = (server, screen, kind = DESKTOP) => StubbedPage.open(screen.browser, server, kind, undefined, (page) => screen.watch(page));
const field = (page, name) => page.locator(`dialog [data-option=${name}]`);
const input = (page, name) => field(page, name).locator("input, select, textarea").first();
const problem = (detail, status = 422, kind = "invalid") => ({ status, type: `/problems#${kind}`, title: "no", detail });
/** The last call with this method and path. */
const sent = (stubbed, method, path) => until(`${method} ${path}`, () => stubbed.calls.findLast((it) => it.method === method && it.path === path));

async function newSession(stubbed) {
  await stubbed.page.getByRole("button", { name: "New session" }).first().click();
  await stubbed.page.waitForSelector("dialog .option-row .option");
}

async function openMenu(page, name) {
  await page.getByRole("button", { name: "Session menu" }).click();
  await page.getByRole("menuitem", { name }).click();
}

await steps({ options: { demo: true }, steps: {
  "every option of the server has a field with a label and its help": async (server, screen) => {
    const stubbed = await open(server, screen);
    const { page } = stubbed;
    const unknown = { name: "moon_phase", flag: "moon-phase", kind: "tide", help: "Something of a newer server", role: "drive", effect: "live", settable: true };
    stubbed.replies = { "GET /options": optionsReply({ options: [...OPTIONS, unknown] }) };
    await newSession(stubbed);
    assert.equal(await field(page, "max_turns").isVisible(), false, "others are folded away");
    await page.locator(".more-options summary").click();
    for (const { name, help } of [...OPTIONS, unknown]) {
      assert.match((await field(page, name).textContent()).replaceAll("`", ""), new RegExp(help.replaceAll("`", "").replace(/[.*+?^${}()|[\]\\]/g, "\\$&").slice(0, 30)), name);
      const label = await field(page, name).evaluate((it) => it.getAttribute("aria-labelledby") ?? it.querySelector("input, select, textarea").labels[0]?.textContent);
      assert.ok(label, `${name} has a label`);
    }
    await clean(page, "the form of a new session");
    await page.mouse.click(5, 5);
    await page.waitForSelector("dialog", { state: "detached" });
    await newSession(stubbed);
    await input(page, "model").fill("opus");
    await page.mouse.click(5, 5);
    assert.equal(await input(page, "model").inputValue(), "opus", "a click beside it does not lose what was entered");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await stubbed.context.close();
  },
  "what was entered is sent, and nothing else": async (server, screen) => {
    const stubbed = await open(server, screen);
    const { page } = stubbed;
    stubbed.replies = { "POST /sessions": { id: "22222222-2222-4222-8222-222222222222" } };
    await newSession(stubbed);
    await page.locator("dialog").getByRole("button", { name: "Create" }).click();
    const { id, ...bare } = (await sent(stubbed, "POST", "/sessions")).body;
    assert.deepEqual(bare, { cwd: "/home/me/shop", profile: "none" });
    stubbed.calls.length = 0;
    await newSession(stubbed);
    await page.locator(".more-options summary").click();
    await page.getByLabel("Title").fill("Cart");
    await page.getByLabel("First message").fill("Fix it");
    await input(page, "model").fill("opus");
    await input(page, "effort").selectOption("max");
    await input(page, "max_turns").fill("12");
    await input(page, "max_budget_usd").fill("$2,50");
    await input(page, "append_system_prompt").fill("Line 1\nLine 2");
    // Added by Enter, by the button, and not added at all.
    await input(page, "allowed_tools").fill("Read");
    await input(page, "allowed_tools").press("Enter");
    await field(page, "allowed_tools").locator(".add-entry input").fill("Bash(git:*)");
    await field(page, "allowed_tools").getByRole("button", { name: "Add" }).click();
    await field(page, "allowed_tools").locator(".add-entry input").fill("Grep");
    await field(page, "environment").getByRole("button", { name: "Add a variable" }).click();
    await page.keyboard.type("API_KEY");
    await page.keyboard.press("Tab");
    await page.keyboard.type("a=b c");
    await input(page, "mcp_config").fill('{"mcpServers":{"issues":{"command":"x"}}}');
    await input(page, "session_persistence").uncheck();
    await input(page, "delete_when_ended").check();
    await input(page, "delete_when_ended").uncheck();
    await page.locator("dialog").getByRole("button", { name: "Create" }).click();
    const { id: other, prompt, ...body } = (await sent(stubbed, "POST", "/sessions")).body;
    assert.ok(id !== other && prompt.text === "Fix it");
    assert.deepEqual(body, {
      cwd: "/home/me/shop", title: "Cart", profile: "none", model: "opus", effort: "max", max_turns: 12, max_budget_usd: 2.5, append_system_prompt: "Line 1\nLine 2",
      allowed_tools: ["Read", "Bash(git:*)", "Grep"], environment: { API_KEY: "a=b c" }, mcp_config: { mcpServers: { issues: { command: "x" } } }, session_persistence: false,
    });
    await stubbed.context.close();
  },
  "errors are beside their fields, those of the page and those of the server": async (server, screen) => {
    const stubbed = await open(server, screen);
    const { page } = stubbed;
    stubbed.replies = { "POST /sessions": problem("`fallback_model`: must not start with a dash") };
    await newSession(stubbed);
    await page.locator(".more-options summary").click();
    await input(page, "max_turns").fill("0");
    await input(page, "mcp_config").fill('{\n"mcpServers": {,}');
    assert.match(await field(page, "mcp_config").locator(".option-about").textContent(), /not JSON.*line 2/);
    await page.locator(".more-options summary").click();
    const create = page.locator("dialog").getByRole("button", { name: "Create" });
    await create.click();
    assert.match(await field(page, "max_turns").locator(".form-error").textContent(), /at least 1/);
    assert.equal(await input(page, "max_turns").getAttribute("aria-invalid"), "true");
    assert.ok(await input(page, "max_turns").evaluate((it) => it === document.activeElement), "the first of them has the focus, though it was folded away");
    assert.equal(stubbed.calls.some((it) => it.method === "POST" && it.path === "/sessions"), false);
    await input(page, "max_turns").fill("3");
    assert.equal(await field(page, "max_turns").locator(".form-error").textContent(), "");
    for (const [text, error] of [["{}", /mcpServers/], ['{"mcpServers":{"a":{}}}', /neither a command nor a URL/], ["/etc/mcp.json", /^A file on the server/]]) {
      await input(page, "mcp_config").fill(text);
      assert.match(await field(page, "mcp_config").locator(".option-about").textContent(), error);
    }
    await create.click();
    await until("the server's error", async () => /^Must not start with a dash$/.test(await field(page, "fallback_model").locator(".form-error").textContent()));
    stubbed.replies = { "POST /sessions": problem("the disk is full") };
    await create.click();
    await until("an error about no option", async () => (await page.locator("#new-session > .form-error").textContent()) === "the disk is full");
    await stubbed.context.close();
  },
  "what a client may not set is disabled, with the reason": async (server, screen) => {
    const stubbed = await open(server, screen);
    const { page } = stubbed;
    stubbed.me.role = "drive";
    stubbed.replies = { "GET /options": asDriver(optionsReply({ bypass_allowed: false, project: project("x = 1") })) };
    await stubbed.reload();
    await newSession(stubbed);
    await page.locator(".more-options summary").click();
    for (const name of ["environment", "mcp_config"]) {
      assert.equal(await field(page, name).locator("button:enabled, textarea:enabled, input:enabled").count(), 0, name);
      assert.match(await field(page, name).textContent(), /Only someone with the role admin/);
    }
    assert.equal(await input(page, "mode").locator("option[value=bypassPermissions]").isDisabled(), true);
    assert.match(await input(page, "mode").locator("option[value=bypassPermissions]").textContent(), /not allowed on this server/);
    assert.equal(await page.getByRole("button", { name: "Trust this file" }).count(), 0);
    assert.match(await page.locator(".project-file").textContent(), /Someone with the role admin can trust this file/);
    await clean(page, "the form of a driver");
    await stubbed.context.close();
  },
  "a profile shows what it brings, and what is entered wins": async (server, screen) => {
    const stubbed = await open(server, screen);
    const { page } = stubbed;
    stubbed.replies = { "GET /options": optionsReply({ profiles: profiles(2) }), "POST /sessions": { id: "22222222-2222-4222-8222-222222222222" } };
    await newSession(stubbed);
    assert.equal(await page.getByLabel("Profile").inputValue(), "careful", "the default of the directory is chosen");
    assert.equal(await input(page, "model").getAttribute("placeholder"), "Profile: opus");
    await page.getByLabel("Profile").selectOption("careful-1");
    await page.locator(".more-options summary").click();
    assert.equal(await input(page, "max_turns").getAttribute("placeholder"), "Profile: 21");
    assert.equal(await input(page, "delete_when_ended").isChecked(), true);
    await input(page, "delete_when_ended").uncheck();
    await input(page, "model").fill("haiku");
    await page.locator("dialog").getByRole("button", { name: "Create" }).click();
    const { id, ...body } = (await sent(stubbed, "POST", "/sessions")).body;
    assert.ok(id);
    assert.deepEqual(body, { cwd: "/home/me/shop", profile: "careful-1", model: "haiku", delete_when_ended: false });
    await stubbed.context.close();
  },
  "a project's file is shown in full and trusted only after it was seen": async (server, screen) => {
    const stubbed = await open(server, screen);
    const { page } = stubbed;
    const text = `# harmless\r\n${"\n".repeat(10_000)}a = "\u202eevil\u2066"${" ".repeat(5000)}# \u001b[2K\u200b<img src=x onerror=alert(1)>\n${"b = 1\n".repeat(500)}c = "the end"`;
    let trusted = false;
    stubbed.replies = {
      "GET /options": () => optionsReply({ project: { ...project(text, trusted), profiles: profiles(1, "fast") } }),
      "POST /projects/trust": () => ((trusted = true), {}),
      "DELETE /projects/trust": () => ((trusted = false), {}),
    };
    await newSession(stubbed);
    const shown = await page.locator(".project-text").textContent();
    assert.match(shown, /⟨10000 empty lines⟩\na = "\\u\{202e\}evil\\u\{2066\}"⟨5000 spaces⟩# \\u\{1b\}\[2K\\u\{200b\}<img src=x/);
    assert.doesNotMatch(shown, /[\u202e\u2066\u001b\u200b]/);
    const trust = page.getByRole("button", { name: "Trust this file" });
    assert.equal(await trust.isDisabled(), true, "not before all of it could be seen");
    assert.equal(await page.getByLabel("Profile").locator("option").count(), 1, "its profiles are not offered");
    await page.locator(".project-text").evaluate((it) => it.scrollTo(0, it.scrollHeight));
    await until("it was seen", async () => !(await trust.isDisabled()));
    await trust.click();
    assert.deepEqual((await sent(stubbed, "POST", "/projects/trust")).body, { cwd: "/home/me/shop", digest: "d1" });
    await page.waitForSelector(".project-file.trusted");
    assert.equal(await page.getByLabel("Profile").inputValue(), "fast");
    await page.locator(".project-file summary").click();
    await page.getByRole("button", { name: "Stop trusting this file" }).click();
    assert.deepEqual((await sent(stubbed, "DELETE", "/projects/trust")).body, { cwd: "/home/me/shop" });
    await page.waitForSelector(".project-file:not(.trusted)");
    await stubbed.context.close();
  },
  "settings show the present values, and only changes are sent": async (server, screen) => {
    const stubbed = await open(server, screen);
    const { page } = stubbed;
    const session = { id: "x", cwd: "/home/me/shop", options: values("typical"), restart_pending: true };
    stubbed.replies = { "GET ": session, "GET /options": optionsReply({ profiles: profiles(1) }), "PATCH ": {} };
    await openMenu(page, /^Session settings/);
    await field(page, "max_turns").waitFor();
    assert.match(await page.locator("dialog").textContent(), /The agent restarts before its next turn/);
    assert.equal(await input(page, "max_turns").inputValue(), "40");
    assert.equal(await input(page, "idle_timeout").inputValue(), "2h");
    assert.deepEqual(await field(page, "allowed_tools").locator("li code").allTextContents(), values("typical").allowed_tools);
    assert.equal(await input(page, "session_persistence").isDisabled(), true, "only new sessions have a choice");
    const save = page.getByRole("button", { name: "Save" });
    assert.equal(await save.isDisabled(), true);
    await clean(page, "session settings");
    await input(page, "model").fill("haiku");
    assert.equal(await page.locator(".sheet-status").textContent(), "1 change");
    await input(page, "max_turns").fill("");
    await field(page, "allowed_tools").getByRole("button").first().click();
    assert.equal(await page.locator(".sheet-status").textContent(), "3 changes; the agent restarts with the next message");
    await save.click();
    assert.deepEqual((await sent(stubbed, "PATCH", "")).body, { options: { model: "haiku", max_turns: null, allowed_tools: values("typical").allowed_tools.slice(1) } });
    await page.waitForSelector("dialog", { state: "detached" });
    await openMenu(page, /^Session settings/);
    await page.getByRole("button", { name: "Enter its values" }).click();
    assert.equal(await input(page, "max_turns").inputValue(), "20");
    assert.match(await page.locator(".apply-profile").textContent(), /not saved yet.*Limit of turns: 20/);
    await stubbed.context.close();
  },
  "everything is allowed only after a question": async (server, screen) => {
    const stubbed = await open(server, screen);
    const { page } = stubbed;
    const question = "It never asks again.";
    const refuse = (request) => (request.postDataJSON().confirm ? {} : problem(question, 409, "needs-confirmation"));
    stubbed.replies = { "PATCH ": refuse, "POST /sessions": { id: "22222222-2222-4222-8222-222222222222" } };
    const ask = page.getByRole("dialog", { name: "Let the agent do everything?" });
    // From the menu of modes: refused, then agreed to.
    for (const answer of ["Cancel", "Allow everything"]) {
      await page.locator(".chip-button[title^='Permission mode']").click();
      await page.getByRole("menuitemradio", { name: /^Allow everything/ }).click();
      await ask.getByText(question).waitFor();
      assert.equal(stubbed.calls.some((it) => it.body?.confirm), false);
      await ask.getByRole("button", { name: answer }).click();
    }
    await until("it is confirmed", () => stubbed.calls.findLast((it) => it.path === "")?.body.confirm);
    assert.deepEqual(stubbed.calls.findLast((it) => it.path === "").body, { options: { mode: "bypassPermissions" }, confirm: true });
    // From the settings.
    stubbed.calls.length = 0;
    await openMenu(page, /^Session settings/);
    await input(page, "mode").selectOption("bypassPermissions");
    await page.getByRole("button", { name: "Save" }).click();
    await ask.getByRole("button", { name: "Cancel" }).click();
    assert.equal(await page.getByRole("button", { name: "Save" }).isVisible(), true, "the sheet stays open");
    await page.getByRole("button", { name: "Save" }).click();
    await ask.getByRole("button", { name: "Allow everything" }).click();
    await until("it is confirmed", () => stubbed.calls.findLast((it) => it.path === "" && it.method === "PATCH")?.body.confirm);
    await page.waitForSelector("dialog", { state: "detached" });
    // In a new session.
    await newSession(stubbed);
    await input(page, "mode").selectOption("bypassPermissions");
    await page.locator("dialog").getByRole("button", { name: "Create" }).click();
    await ask.getByRole("button", { name: "Cancel" }).click();
    assert.equal(stubbed.calls.some((it) => it.method === "POST" && it.path === "/sessions"), false);
    await stubbed.context.close();
  },
  "acting on changes is off, the server's default, or its own": async (server, screen) => {
    const stubbed = await open(server, screen);
    const { page } = stubbed;
    const usual = { commit: { every: "turn", branch: "agents" }, targets: [] };
    const log = [...watchLog(40), { at: 1, kind: "hook", text: "The hook forbade \u202eEdit" }];
    stubbed.replies = { "GET /watch": { default: usual, config: usual, inherited: true, log, last: 4, processed: 4 }, "PATCH /settings": {} };
    await openMenu(page, /^Session settings/);
    const section = page.locator(".watch-section");
    await section.waitFor();
    assert.equal(await section.getByRole("radio", { name: /server does by default/ }).isChecked(), true);
    assert.match(await section.textContent(), /Commits after each turn to agents/);
    const first = section.locator(".watch-log li").first();
    assert.match(await first.textContent(), /^HookThe hook forbade \\u\{202e\}Edit/);
    assert.equal(await section.locator(".watch-log li").count(), 30, "the log is bounded");
    await section.getByRole("button", { name: "Show 11 more" }).click();
    assert.equal(await section.locator(".watch-log li").count(), 41);
    assert.equal(await section.locator(".watch-log .commit code").first().textContent(), "6a1f0b8c3d");
    await clean(page, "acting on changes");
    await section.getByRole("radio", { name: /^Nothing/ }).check();
    await page.getByRole("button", { name: "Save" }).click();
    assert.deepEqual((await sent(stubbed, "PATCH", "/settings")).body, { watch: null });
    assert.equal(stubbed.calls.some((it) => it.method === "PATCH" && it.path === ""), false);
    await page.waitForSelector("dialog", { state: "detached" });
    stubbed.calls.length = 0;
    await openMenu(page, /^Session settings/);
    await section.getByRole("radio", { name: /of its own/ }).check();
    await input(page, "commit").selectOption("change");
    await input(page, "branch").fill("mine");
    await input(page, "copy_to").fill("/srv/copy");
    await page.getByRole("button", { name: "Save" }).click();
    const { watch } = (await sent(stubbed, "PATCH", "/settings")).body;
    assert.deepEqual([watch.commit, watch.targets], [{ every: "change", branch: "mine" }, [{ kind: "directory", path: "/srv/copy" }]]);
    await stubbed.context.close();
  },
  "thousands of tools are searched, and shown in parts": async (server, screen) => {
    const stubbed = await open(server, screen, PHONE);
    const { page } = stubbed;
    await stubbed.page.waitForFunction(() => document.querySelector(".chip-button.problem")?.hidden);
    stubbed.replies = { "GET /agent": { ...agentReply(10_000, "Tool"), tools: { items: ["Read", "evil\u202e<b>", ...Array.from({ length: 498 }, (_, n) => `mcp__x__t${n}`)], total: 10_000 } } };
    await stubbed.reload();
    await page.getByRole("button", { name: "128 MCP servers cannot be used" }).tap();
    const dialog = page.getByRole("dialog", { name: "About the agent" });
    await dialog.locator(".facts").waitFor();
    assert.match(await dialog.locator(".facts").textContent(), /2\.1\.325.*claude-opus-5-5.*Accept edits/s);
    assert.equal(await dialog.locator(".servers li").first().getAttribute("class"), "problem", "problems come first");
    assert.ok((await dialog.locator(".names li").count()) <= 300);
    const search = dialog.getByRole("searchbox");
    await search.fill("EVIL");
    assert.deepEqual(await dialog.locator(".names li:visible").allTextContents(), ["evil\\u{202e}<b>"]);
    await search.fill("nothing like it");
    assert.equal(await dialog.getByText("Nothing matches.").isVisible(), true);
    await search.fill("");
    const tools = dialog.locator("details", { hasText: "Tools" }).first();
    await tools.getByRole("button", { name: "Show 440 more" }).tap();
    assert.equal(await tools.locator("li").count(), 500);
    assert.match(await dialog.textContent(), /And 9,500 that are not listed here/);
    await clean(page, "about the agent");
    await stubbed.context.close();
  },
  "a denied call is never marked as done": async (server, screen) => {
    const stubbed = await open(server, screen);
    const denied = (n) => item(callHtml({ look: "look", verb: "Read", state: "denied", target: `secret ${n}`, body: "" }).replace("✔", "⊘"), { kind: "call", call: { action: "read", state: "denied", target: `secret ${n}`, tool: "Read", images: 0 } });
    await stubbed.show({ items: [1, 2, 3, 4].map(denied) });
    await stubbed.page.waitForSelector(".entry .call.denied");
    assert.equal(await stubbed.page.locator(".fold").count(), 0, "they are not folded into a group with a mark of success");
    assert.equal(await stubbed.page.locator(".call.denied .mark", { hasText: "⊘" }).count(), 4);
    await stubbed.context.close();
  },
} });
