// A shell in the browser: typing, programs that use the whole screen, two viewers, a reload, the
// scrollback, phones, and who may have one.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { assert, clean, PHONE, steps, until } from "./fixture.mjs";

process.env.SHELL = existsSync("/bin/bash") ? "/bin/bash" : "/bin/sh";
process.env.PS1 = "$ ";

const text = (page) => page.$$eval(".terminal-line", (lines) => lines.map((it) => it.textContent).join("\n"));
const shows = async (page, words) => {
  await until(`“${words}” is shown`, async () => (await text(page)).includes(words)).catch(async (problem) => {
    throw new Error(`${problem.message}:\n${await text(page)}`);
  });
};
const type = async (page, line) => {
  await page.locator(".terminal-input").focus();
  await page.keyboard.type(line);
  await page.keyboard.press("Enter");
};
/** The shell waits for a command. */
const prompts = (page) => until("the shell prompts", async () => /[#$]$/.test((await text(page)).trimEnd()));
/** Starts a program that repeats what it reads, and waits until it does. */
const repeat = async (page, word) => {
  await prompts(page);
  await type(page, "cat");
  await shows(page, "cat\n");
  await type(page, word);
  // The terminal shows what is typed, and then what the program prints.
  await until(`“${word}” is repeated`, async () => (await text(page)).split("\n").filter((it) => it.trimEnd() === word).length >= 2);
};
const openTerminal = async (page) => {
  await page.getByRole("navigation", { name: "Views of this session" }).getByRole("link", { name: "Terminal" }).click();
  await page.waitForSelector(".terminal-cursor", { state: "attached" });
};

let session, desk, phone;

await steps({
  options: { demo: true },
  steps: {
    "what is typed is run, in the directory of the session": async (server, screen) => {
      session = await server.session();
      desk = await screen.page(undefined, session);
      await openTerminal(desk);
      await type(desk, "echo he''llo; pwd | tr / _");
      await shows(desk, "hello");
      await shows(desk, server.project.replaceAll("/", "_"));
      assert.match(desk.url(), new RegExp(`#/s/${session}/terminal/1$`));
      const focused = await desk.evaluate(() => document.activeElement.className);
      assert.equal(focused, "terminal-input");
      assert.equal(await desk.evaluate(() => document.querySelectorAll(".terminal [style]:not([style*=':'])").length), 0);
    },
    "keys of the keyboard reach the shell, and none of the page's shortcuts does": async () => {
      await repeat(desk, "one");
      await desk.keyboard.press("Control+c");
      await prompts(desk);
      await desk.keyboard.press("ArrowUp");
      await desk.keyboard.press("Control+a");
      await desk.keyboard.type("echo con");
      await desk.keyboard.press("Enter");
      await shows(desk, "\nconcat\n");
      await desk.keyboard.press("Control+k");
      assert.equal(await desk.locator("dialog[open]").count(), 0);
      await type(desk, "printf '%s-' a b; cat -v");
      await shows(desk, "a-b-");
      await type(desk, "two");
      await shows(desk, "two\ntwo\n");
      for (const key of ["F1", "Alt+x", "Shift+Tab", "Control+ArrowLeft", "Delete"]) await desk.keyboard.press(key);
      await desk.keyboard.type("é");
      await desk.keyboard.press("Control+Space");
      await desk.keyboard.press("Enter");
      await shows(desk, "^[OP^[x^[[Z^[[1;5D^[[3~M-CM-)^@");
      await desk.keyboard.press("Control+c");
      await prompts(desk);
      // Tab belongs to the shell, until Ctrl+M says otherwise.
      await desk.keyboard.press("Tab");
      assert.equal(await desk.evaluate(() => document.activeElement.className), "terminal-input");
      await desk.keyboard.press("Control+m");
      await desk.keyboard.press("Shift+Tab");
      assert.notEqual(await desk.evaluate(() => document.activeElement.className), "terminal-input");
      await desk.locator(".terminal-input").focus();
      await desk.keyboard.press("Control+m");
    },
    "a composed character is sent once": async () => {
      await desk.locator(".terminal-input").focus();
      const devtools = await desk.context().newCDPSession(desk);
      await desk.keyboard.type("echo '<");
      await devtools.send("Input.imeSetComposition", { text: "に", selectionStart: 1, selectionEnd: 1 });
      await devtools.send("Input.imeSetComposition", { text: "日本", selectionStart: 2, selectionEnd: 2 });
      await devtools.send("Input.insertText", { text: "日本" });
      await desk.keyboard.type(">'");
      await desk.keyboard.press("Enter");
      await shows(desk, "\n<日本>");
    },
    "a program uses the whole screen, and leaves it as it was": async (server) => {
      const file = join(server.project, "written.txt");
      if (existsSync("/usr/bin/vim")) {
        await type(desk, "vim -u NONE -N written.txt");
        await shows(desk, "\n~");
        await desk.keyboard.type("iwritten by hand");
        await desk.keyboard.press("Escape");
        await shows(desk, "written by hand");
        await desk.keyboard.type(":wq");
        await desk.keyboard.press("Enter");
        await until("the file is written", () => existsSync(file) && readFileSync(file, "utf8").includes("written by hand"));
      } else {
        await type(desk, "printf '\\033[?1049h\\033[2J\\033[5;5Hwhole screen'; read x; printf '\\033[?1049l'");
        await shows(desk, "whole screen");
        await desk.keyboard.press("Enter");
      }
      await shows(desk, "<日本>");
    },
    "another viewer sees the same, and has its size when it types": async (server, screen) => {
      phone = await screen.page(PHONE, session);
      await openTerminal(phone);
      await shows(phone, "<日本>");
      const columns = () => desk.evaluate(() => document.querySelector(".terminal-scroller").classList.contains("wide"));
      assert.equal(await columns(), false);
      await type(desk, "tput cols");
      // Keys of two viewers that type at the same time are mixed, as on one keyboard.
      await until("the command of the desktop", async () => /tput cols\n\d+\n/.test(await text(desk)));
      await phone.locator(".terminal-keys button", { hasText: "Esc" }).waitFor();
      await type(phone, "stty size | tr ' ' x");
      await until("the phone's size", async () => /\n\d+x[3-6]\d\n/.test(await text(phone)));
      await until("the same on the desktop", async () => /\n\d+x[3-6]\d\n/.test(await text(desk)));
      await type(desk, "stty size | tr ' ' x");
      await until("the desktop's size", async () => /\n\d+x1\d\d\n/.test(await text(desk)));
    },
    "phones have the keys that their keyboards lack": async () => {
      const key = (name) => phone.locator(".terminal-keys").getByRole("button", { name, exact: true });
      await repeat(phone, "three");
      await key("Control, for the next key").tap();
      assert.equal(await key("Control, for the next key").getAttribute("aria-pressed"), "true");
      await phone.keyboard.type("c");
      assert.equal(await key("Control, for the next key").getAttribute("aria-pressed"), "false");
      await prompts(phone);
      await phone.keyboard.type("echo one ");
      await key("Vertical bar").tap();
      await phone.keyboard.type(" tr a-z A-Z");
      await phone.keyboard.press("Enter");
      await shows(phone, "\nONE");
      await key("Up").tap();
      await phone.keyboard.press("Enter");
      await until("it ran again", async () => (await text(phone)).split("\nONE").length > 2);
      // What a keyboard without keys enters.
      await phone.locator(".terminal-input").evaluate((field) => {
        for (const [inputType, data] of [["insertText", "echo tw"], ["insertText", "x"], ["deleteContentBackward", null], ["insertText", "o"], ["insertLineBreak", null]])
          field.dispatchEvent(new InputEvent("beforeinput", { inputType, data, bubbles: true, cancelable: true }));
      });
      await shows(phone, "\ntwo");
    },
    "a reload shows the same terminal and screen": async () => {
      await type(desk, "clear; name=kept; echo na''med");
      await shows(desk, "named");
      await desk.reload();
      await desk.waitForSelector(".terminal-cursor", { state: "attached" });
      await type(desk, "echo it is $name");
      await shows(desk, "it is kept");
      assert.match(desk.url(), /terminal\/1$/);
      assert.equal(await desk.locator(".terminal-tab").count(), 1);
    },
    "older lines are read by scrolling, and stay while more are printed": async () => {
      await type(desk, "seq -f 'number %.0f' 3000");
      await shows(desk, "number 3000");
      await desk.locator(".terminal-scroller").evaluate((it) => (it.scrollTop = it.scrollHeight / 2));
      await until("lines of the middle", async () => /number 1[45]\d\d\n/.test(await text(desk)));
      const before = await desk.evaluate(() => {
        const box = document.querySelector(".terminal-scroller").getBoundingClientRect();
        return document.elementFromPoint(box.left + 30, box.top + 60).textContent;
      });
      await type(phone, "seq -f 'more %.0f' 200");
      await shows(phone, "more 200");
      const after = await desk.evaluate(() => {
        const box = document.querySelector(".terminal-scroller").getBoundingClientRect();
        return document.elementFromPoint(box.left + 30, box.top + 60).textContent;
      });
      assert.ok(before.startsWith("number"), before);
      assert.ok(after.startsWith("number"), after);
      await desk.getByRole("button", { name: "To the end" }).click();
      await shows(desk, "more 200");
    },
    "text is pasted as one piece, and copied without the breaks of the terminal": async () => {
      const paste = (words) =>
        desk.locator(".terminal-input").evaluate((field, words) => {
          const data = new DataTransfer();
          data.setData("text/plain", words);
          field.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
        }, words);
      await type(desk, "clear; echo cle''ared; cat -v");
      await shows(desk, "cleared");
      await type(desk, "ready");
      await shows(desk, "ready\nready");
      await paste("first\nsecond\x1b[201~\nthird\n");
      const ask = desk.locator("dialog[open]");
      await ask.waitFor();
      assert.match(await ask.innerText(), /Paste 3 lines/);
      await ask.getByRole("button", { name: "Paste" }).last().click();
      await shows(desk, "third\nfirst");
      await desk.keyboard.press("Control+c");
      await prompts(desk);
      await type(desk, `echo ${"word".repeat(60)}end`);
      await until("the line and its output", async () => (await text(desk)).split("wordend").length > 2);
      const copied = await desk.evaluate(() => {
        const last = [...document.querySelectorAll(".terminal-line")].findLast((it) => it.textContent.endsWith("wordend"));
        const line = last.previousSibling;
        getSelection().setBaseAndExtent(line, 0, last, last.childNodes.length);
        const event = new ClipboardEvent("copy", { clipboardData: new DataTransfer(), bubbles: true, cancelable: true });
        line.dispatchEvent(event);
        return event.clipboardData.getData("text/plain");
      });
      assert.equal(copied, `${"word".repeat(60)}end`);
      await desk.evaluate(() => getSelection().removeAllRanges());
    },
    "several terminals are tabs, and each ends and starts again": async () => {
      await desk.getByRole("button", { name: "New terminal" }).click();
      await desk.waitForFunction(() => document.querySelectorAll(".terminal-tab").length === 2);
      await until("the address of the second", () => desk.url().endsWith("/terminal/2"));
      await type(desk, "printf '\\033]0;my title\\007'; exit 3");
      await desk.locator(".terminal-message", { hasText: "exit code 3" }).waitFor();
      await desk.locator(".terminal-tab.ended", { hasText: "my title" }).waitFor();
      await clean(desk, "an ended terminal");
      await desk.getByRole("button", { name: "Start again" }).click();
      await desk.waitForSelector(".terminal-message", { state: "hidden" });
      await type(desk, "echo sta''rted");
      await shows(desk, "started");
      await phone.waitForFunction(() => document.querySelectorAll(".terminal-tab").length === 2);
      await desk.getByRole("button", { name: /^Close .*2/ }).click();
      await desk.locator("dialog[open]").getByRole("button", { name: "Close" }).last().click();
      await until("the first is shown", () => desk.url().endsWith("/terminal/1"));
    },
    "a connection that is cut comes back": async (server, screen) => {
      const page = await screen.page(undefined, session);
      await openTerminal(page);
      await page.evaluate(() => dispatchEvent(new Event("offline")));
      await page.waitForSelector(".terminal-message", { state: "hidden" });
      await type(page, "echo ba''ck");
      await shows(page, "back");
      await page.close();
    },
    "it is accessible": async (server, screen) => {
      const page = await screen.page(undefined, session);
      await openTerminal(page);
      await clean(page, "a terminal");
      await clean(phone, "a terminal on a phone");
      await page.close();
    },
    "a lost connection says why, and a terminal that is gone is closed": async (server, screen) => {
      const page = await screen.page(undefined, session);
      await openTerminal(page);
      const restart = await server.crash();
      await page.locator(".terminal-message", { hasText: "The connection is lost" }).waitFor();
      // A gateway of a fleet answers so while the machine with the shell is away.
      const list = `**/api/v1/sessions/${session}/terminals`;
      const away = { title: "not possible now", status: 409, detail: "worker `w1` is away (for 12 s)" };
      await page.route(list, (route) => route.fulfill({ status: 409, contentType: "application/problem+json", body: JSON.stringify(away) }));
      await page.getByRole("button", { name: "Reconnect now" }).click();
      await page.locator(".terminal-message", { hasText: "worker `w1` is away" }).waitFor();
      await clean(page, "a terminal whose machine is away");
      await page.unroute(list);
      await restart();
      await page.locator(".terminal-message", { hasText: "There is no terminal open" }).waitFor();
      await page.getByRole("button", { name: "Start a shell" }).click();
      await type(page, "echo ne''w");
      await shows(page, "new");
      await page.close();
    },
    "who may not have a shell is not offered one": async (server, screen) => {
      const { token } = await server.ask("POST", "/tokens", { name: "drives", role: "drive" });
      const page = await screen.page(undefined, session, token);
      assert.equal(await page.getByRole("link", { name: "Terminal" }).count(), 0);
      await page.goto(`${server.address}/#/s/${session}/terminal/1`);
      await page.waitForSelector(".composer");
      assert.equal(await page.locator(".terminal").count(), 0);
      await page.close();
    },
  },
});
