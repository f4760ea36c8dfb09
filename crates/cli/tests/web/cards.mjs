// Details of cards and of what they stand for in the conversation.
import { assert, DESKTOP, PHONE, until } from "./fixture.mjs";
import { callHtml, codeHtml, item, request, session, stubbedSteps } from "./stub-api.mjs";

const card = (page) => page.locator("section.request");
const answers = (stubbed) => stubbed.calls.filter((it) => it.method === "POST" && it.path.startsWith("/requests/")).map((it) => it.body);
const press = async (page, key) => {
  await card(page).focus();
  await page.waitForTimeout(400);
  await page.keyboard.press(key);
};
const options = (count) => Array.from({ length: count }, (_, n) => ({ label: `Option ${n + 1}`, description: "as it is" }));
const ask = (...questions) => request({ kind: "question", tool: "AskUserQuestion", action: "ask", input: JSON.stringify({ questions }) });
const question = (more) => ({ question: "Which one?", header: "One", multiSelect: false, options: options(3), ...more });
const lines = (count) => Array.from({ length: count }, (_, n) => `line ${n}`).join("\n");
/** The part of the window between the bar and the dock. */
const free = (page) => page.evaluate(() => [document.querySelector(".top").getBoundingClientRect().bottom, document.querySelector(".dock").getBoundingClientRect().top]);

const steps = {
  "an unanswered question is neither sent nor refused, and the card says what is missing": async (open) => {
    for (const kind of [DESKTOP, PHONE]) {
      const stubbed = await open(kind);
      const { page } = stubbed;
      await stubbed.show({ requests: [ask(question(), question({ header: "Two", question: "Which ones?", multiSelect: true }))] });
      const next = card(page).getByRole("button", { name: /^(Next|Answer)/ });
      assert.equal(await next.getAttribute("aria-disabled"), "true");
      await next.click({ force: true });
      await card(page).getByText("Choose an answer or write your own").waitFor();
      await press(page, "Enter");
      assert.deepEqual(answers(stubbed), []);
      assert.match(await card(page).textContent(), /Which one\?/, "it is still the first question");
      await card(page).getByRole("radio", { name: /Option 2/ }).click();
      await card(page).getByText("Which ones?").waitFor();
      assert.equal(await card(page).getByText("Choose an answer or write your own").isVisible(), false);
      await press(page, "Enter");
      assert.deepEqual(answers(stubbed), [], "the last one is not sent without an answer");
      await card(page).getByRole("checkbox", { name: /Option 1/ }).click();
      assert.equal(await next.getAttribute("aria-disabled"), "false");
      await card(page).getByRole("checkbox", { name: /Option 1/ }).click();
      assert.equal(await next.getAttribute("aria-disabled"), "true");
      await card(page).getByRole("checkbox", { name: /Option 3/ }).click();
      await next.click();
      await until("it is answered", () => answers(stubbed).length === 1);
      assert.deepEqual(answers(stubbed)[0].answers, { "Which one?": "Option 2", "Which ones?": "Option 3" });
    }
  },
  "words of one's own are marked as the answer, in the place of a single choice and beside several": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    await stubbed.show({ requests: [ask(question(), question({ header: "Two", question: "Which ones?", multiSelect: true }))] });
    const own = card(page).getByLabel("Your own answer");
    const marked = () => card(page).locator(".own-answer.chosen").count();
    const long = "x".repeat(5000);
    assert.equal(await marked(), 0);
    await own.fill(long);
    assert.equal(await marked(), 1);
    await own.press("Enter");
    await card(page).getByText("Which ones?").waitFor();
    assert.equal(await marked(), 0, "the next question has its own");
    await card(page).getByRole("checkbox", { name: /Option 1/ }).click();
    await own.fill("and a lantern");
    assert.equal(await marked(), 1);
    assert.equal(await card(page).getByRole("checkbox", { name: /Option 1/ }).getAttribute("aria-checked"), "true");
    await card(page).getByRole("button", { name: "Back" }).click();
    assert.equal(await own.inputValue(), long, "what was written is still there");
    assert.equal(await marked(), 1);
    await own.press("Enter");
    await card(page).getByText("Which ones?").waitFor();
    await card(page).getByRole("button", { name: /^Answer/ }).click();
    await until("it is answered", () => answers(stubbed).length === 1);
    assert.deepEqual(answers(stubbed)[0].answers, { "Which one?": long, "Which ones?": "Option 1, and a lantern" });
  },
  "one choice and several look different": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const radius = async (several) => {
      await stubbed.show({ requests: [ask(question({ multiSelect: several }))] });
      return card(page).locator(".choice .sign").first().evaluate((it) => getComputedStyle(it).borderRadius);
    };
    assert.equal(await radius(false), "50%");
    assert.notEqual(await radius(true), "50%");
  },
  "all edits of the project are allowed with one click or key, if the server offers that": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const exact = { id: "exact", label: "Edit /home/me/shop/a.txt, whatever the change", tool: "edits", pattern: "/home/me/shop/a.txt" };
    const directory = { id: "directory", label: "Edit any file in /home/me/shop", tool: "edits", pattern: "/home/me/shop/**" };
    const edit = (rules) => request({ tool: "Write", action: "write", target: "/home/me/shop/a.txt", disclosures: [{ label: "File", text: "/home/me/shop/a.txt" }], rules });
    const button = card(page).getByRole("button", { name: /Allow all edits in this project/ });
    for (const act of [() => button.click(), () => press(page, "e")]) {
      stubbed.calls.length = 0;
      await stubbed.show({ requests: [edit([exact, directory])] });
      await act();
      await until("it is answered", () => answers(stubbed).length === 1);
      assert.deepEqual(answers(stubbed), [{ decision: "allow", remember: { rule: "directory", scope: "directory" } }]);
    }
    stubbed.calls.length = 0;
    for (const rules of [[exact], []]) {
      await stubbed.show({ requests: [edit(rules)] });
      assert.equal(await button.count(), 0);
      await press(page, "e");
    }
    // A change that was not seen yet cannot be allowed this way either.
    await stubbed.show({ requests: [{ ...edit([exact, directory]), html: callHtml({ body: codeHtml(lines(800)) }) }] });
    await until("it is not possible yet", () => button.isDisabled());
    assert.deepEqual(answers(stubbed), []);
  },
  "a request is one line in the conversation that leads to its card": async (open) => {
    for (const kind of [DESKTOP, PHONE]) {
      const stubbed = await open(kind);
      const { page } = stubbed;
      const asked = request({ tool: "Write", action: "write", target: "/home/me/a.txt", disclosures: [{ label: "File", text: "/home/me/a.txt" }], html: callHtml({ body: codeHtml(lines(800)) }) });
      const call = { action: "write", state: "waiting", target: "/home/me/a.txt", tool: "Write", images: 0, request: asked.id };
      const target = "a/path/that/is/much/longer/than/a/phone/is/wide/".repeat(4);
      await stubbed.show({ requests: [asked], items: [item(callHtml({ target, body: codeHtml(lines(800)) }), { kind: "call", call })] });
      const stub = page.locator(".log .call");
      const { height } = await stub.boundingBox();
      assert.ok(height < 60, `${height} px`);
      await stub.locator("summary").click();
      assert.equal(await card(page).evaluate((it) => it === document.activeElement), true);
      assert.equal(await stub.locator(".body").isVisible(), false, "it does not open");
      // Once it is answered, it is shown in full again.
      await stubbed.show({ items: [item(callHtml({ state: "done", body: codeHtml("one") }), { kind: "call", call: { ...call, state: "done", request: undefined } })] });
      assert.equal(await page.locator(".log .call .body").isVisible(), true);
    }
  },
  "what is found is not covered by a card": async (open) => {
    for (const kind of [DESKTOP, PHONE]) {
      const stubbed = await open(kind);
      const { page } = stubbed;
      const paragraphs = Array.from({ length: 40 }, (_, n) => item(`<div class="item text"><p>Paragraph ${n} ${n === 37 ? "needle" : ""}</p></div>`));
      const long = item(`<div class="item text">${Array.from({ length: 400 }, (_, n) => `<p>Long ${n} ${n === 200 ? "pin" : ""}</p>`).join("")}</div>`);
      const asked = request({ disclosures: [{ label: "Command", text: lines(800) }] });
      await stubbed.show({ requests: [asked], items: [long, ...paragraphs] });
      await page.getByRole("button", { name: /^Find in/ }).click();
      const field = page.getByRole("searchbox", { name: "Find in this conversation" });
      for (const words of ["needle", "pin"]) {
        await field.fill(words);
        await until(`“${words}” is in sight`, async () => {
          const box = await page.evaluate((words) => {
            const found = [...document.querySelectorAll(".log p")].find((it) => it.textContent.includes(` ${words}`));
            const { top, bottom } = found.getBoundingClientRect();
            return [top, bottom];
          }, words);
          const [top, bottom] = await free(page);
          return box[0] >= top && box[1] <= bottom;
        }, 8000);
      }
    }
  },
  "the conversation has a dot while a request waits and another view is shown, and keys switch views": async (open) => {
    for (const kind of [DESKTOP, PHONE]) {
      const stubbed = await open(kind);
      const { page } = stubbed;
      const nothing = { top: "/home/me/shop", branch: "main", commit: "0123456789abcdef", ahead: 0, behind: 0, files: [], total: 0, message: "" };
      stubbed.replies = { "GET /git/status": nothing, "GET /git/log": { commits: [], more: false }, "GET /git/branches": { branches: [] } };
      await stubbed.show({});
      const chat = page.locator(".views a").filter({ hasText: "Chat" });
      const viewing = (on) => page.waitForFunction((on) => Boolean(document.querySelector(".page.viewing")) === on, on);
      await page.locator(".log, .empty").first().click({ position: { x: 2, y: 2 }, force: true });
      await page.keyboard.press("g");
      await page.keyboard.press("g");
      await viewing(true);
      assert.equal(await chat.locator(".status-dot").count(), 0);
      await stubbed.show({ requests: [request({ disclosures: [{ label: "Command", text: "ls" }] })] });
      await chat.locator(".status-dot").waitFor();
      assert.match(await chat.textContent(), /needs you/);
      await page.evaluate(() => document.activeElement?.blur());
      await page.keyboard.press("g");
      await page.keyboard.press("c");
      await viewing(false);
      assert.equal(await chat.locator(".status-dot").count(), 0, "its card is in sight");
      await card(page).waitFor();
    }
  },
  "the model menu marks the model in effect": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const models = ["default", "opus", "sonnet", "haiku"].map((value) => ({ value, name: value, description: "" }));
    const marked = async () => {
      await page.locator(".status .chip-button[title^='Model']").click();
      await page.getByRole("menu").waitFor();
      const names = await page.$$eval("[role=menuitemradio][aria-checked=true]", (all) => all.map((it) => it.textContent));
      await page.keyboard.press("Escape");
      await page.getByRole("menu").waitFor({ state: "detached" });
      return names.filter((it) => !it.startsWith("Effort"));
    };
    stubbed.replies = { "POST /wake": { commands: [], models } };
    await stubbed.show({}, [session()]);
    assert.deepEqual(await marked(), ["default"], "none was chosen");
    await stubbed.show({}, [session({ model: "sonnet" })]);
    assert.deepEqual(await marked(), ["sonnet"]);
    await stubbed.show({ head: { model: "claude-haiku-4-5-20251001" } }, [session({ model: "claude-haiku-4-5" })]);
    assert.deepEqual(await marked(), ["haiku"], "whatever it was chosen by");
  },
  "an agent that cannot be started is one error, with the number of attempts": async (open) => {
    const stubbed = await open(DESKTOP);
    const { page } = stubbed;
    const failed = (text) => item(`<div class="item note error"><details open><summary>The agent exited with code 1</summary><pre class="output">${text}</pre></details></div>`, { kind: "agent" });
    const queue = [{ id: "q1", text: "fix the cart", delivery: "queue", state: "queued", images: 0 }];
    const status = { phase: { kind: "stopped", cause: { cause: "exited", code: 1, stderr: "no settings" } }, queue_held: false };
    await stubbed.show({ items: [failed("no settings"), failed("no settings"), failed("no settings"), failed("no settings")], queue, status });
    const errors = page.locator(".log .note.error:visible");
    await until("there is one", async () => (await errors.count()) === 1);
    assert.match(await errors.textContent(), /4 times/);
    assert.match(await page.locator(".queued-prompts").textContent(), /waits for the agent.*fix the cart/s);
    await page.locator(".failure").getByRole("button", { name: "Try again" }).click();
    await until("it is started", () => stubbed.calls.some((it) => it.path === "/wake"));
    // Another reason is another error.
    await stubbed.show({ items: [failed("no settings"), failed("no settings"), failed("no disk")], queue, status });
    await until("there are two", async () => (await errors.count()) === 2);
  },
};

await stubbedSteps(steps);
