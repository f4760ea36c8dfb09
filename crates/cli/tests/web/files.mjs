// The files of a session: the tree, reading, editing, conflicts, uploads, and what others change.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, clean, composer, DESKTOP, idle, PHONE, say, steps, until } from "./fixture.mjs";

const rows = (page) => page.locator(".tree-row .tree-name").allTextContents();
const row = (page, name) => page.locator(".tree-row", { has: page.getByText(name, { exact: true }) });
const button = (page, name) => page.locator(".file-actions").getByRole("button", { name, exact: true });
const hash = (page) => page.evaluate(() => location.hash);
const focused = (page) => page.evaluate(() => document.activeElement?.textContent);
const shows = (page, words) => page.waitForFunction((words) => document.querySelector(".file-body")?.textContent.includes(words), words);
/** Drops files on an element, as a file manager does. */
async function drop(page, selector, files) {
  const data = await page.evaluateHandle((files) => {
    const transfer = new DataTransfer();
    for (const { name, text, type } of files) transfer.items.add(new File([text], name, { type }));
    return transfer;
  }, files);
  await page.dispatchEvent(selector, "dragenter", { dataTransfer: data });
  await page.waitForSelector(".drop-zone", { state: "attached" });
  await page.dispatchEvent(selector, "dragover", { dataTransfer: data });
  await page.dispatchEvent(selector, "drop", { dataTransfer: data });
}
let session;
const disk = (server, name) => readFileSync(join(server.project, name), "utf8");
const files = async (screen, server, kind, path = "") => {
  const page = await screen.page(kind, session);
  await page.goto(`${server.address}/#/s/${session}/files${path}`);
  await page.waitForSelector(".tree-row", { state: "attached" });
  return page;
};

await steps({ steps: {
  "the tree shows directories first and dims what git ignores": async (server, screen) => {
    const write = (name, text) => writeFileSync(join(server.project, name), text);
    mkdirSync(join(server.project, "src/deep"), { recursive: true });
    mkdirSync(join(server.project, "build"));
    write(".gitignore", "build\n*.log\n");
    write("src/main.rs", "fn main() {\n    println!(\"hello\");\n}\n");
    write("src/deep/x.txt", "deep\n");
    write("notes.md", "# Notes\n\n- one\n\n<img src=x onerror=alert(1)>\n");
    write("debug.log", "x\n");
    write("odd <img src=x>.txt", "odd\n");
    write("drawing.svg", "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='30' onload='alert(1)'><script>alert(2)</script><rect width='40' height='30'/></svg>");
    write("program", Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0, 1, 2, 3]));
    write("large.txt", Array.from({ length: 200_000 }, (_, n) => `line ${n + 1} of a large file`).join("\n"));
    session = await server.session({ allowed_tools: ["Write", "Edit", "Bash"] });
    const page = await screen.page(DESKTOP, session);
    await page.getByRole("link", { name: "Files" }).click();
    await page.waitForSelector(".tree-row");
    assert.deepEqual(await rows(page), ["build", "src", ".gitignore", "debug.log", "drawing.svg", "large.txt", "notes.md", "odd <img src=x>.txt", "program"]);
    assert.deepEqual(await page.locator(".tree-row.ignored .tree-name").allTextContents(), ["build", "debug.log"]);
    await row(page, "src").click();
    await row(page, "main.rs").click();
    await shows(page, "println!");
    assert.equal(await page.locator(".code-line .ts").textContent(), '"hello"', "it is coloured");
    assert.equal(await hash(page), `#/s/${session}/files/src/main.rs`);
    await clean(page, "a file");
    await row(page, "odd <img src=x>.txt").click();
    await shows(page, "odd");
    await page.goBack();
    await shows(page, "println!");
    await page.reload();
    await shows(page, "println!");
    await row(page, "main.rs").waitFor();
    assert.equal(await row(page, "main.rs").getAttribute("aria-current"), "page", "the tree leads there");
  },
  "everything is reached with the keyboard": async (server, screen) => {
    const page = await files(screen, server, DESKTOP);
    await page.locator(".files-tools .input").focus();
    await page.keyboard.press("ArrowDown");
    assert.equal(await focused(page), "build (ignored by git)");
    await page.keyboard.press("s");
    assert.equal(await focused(page), "src");
    await page.keyboard.press("ArrowRight");
    await row(page, "main.rs").waitFor();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowDown");
    assert.equal(await focused(page), "main.rs");
    await page.keyboard.press("Enter");
    await shows(page, "println!");
    await page.keyboard.press("ArrowLeft");
    assert.equal(await focused(page), "src");
    await page.keyboard.press("ArrowLeft");
    await row(page, "main.rs").waitFor({ state: "detached" });
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowUp");
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Find a file");
    await page.keyboard.type("xtxt");
    await row(page, "src/deep/x.txt").or(page.locator(".tree-row small", { hasText: "src/deep/" })).first().waitFor();
    await page.keyboard.press("Enter");
    await shows(page, "deep");
  },
  "markup is shown, images and drawings are seen, and nothing runs": async (server, screen) => {
    const page = await files(screen, server, DESKTOP, "/notes.md");
    await page.locator(".file-preview h1", { hasText: "Notes" }).waitFor();
    assert.equal(await page.locator(".file-preview img").count(), 0);
    await button(page, "Source").click();
    await shows(page, "# Notes");
    await row(page, "drawing.svg").click();
    await button(page, "Preview").click();
    await page.waitForFunction(() => document.querySelector(".file-image img")?.naturalWidth === 40);
    await row(page, "program").click();
    await shows(page, "A binary file of 8 B");
    // By itself a drawing is saved and not shown, and would run nothing.
    const raw = await page.evaluate(async (session) => {
      const response = await fetch(`/api/v1/sessions/${session}/files/content?path=drawing.svg`);
      return [response.headers.get("content-security-policy"), response.headers.get("content-disposition")];
    }, session);
    assert.match(raw[0], /sandbox/);
    assert.match(raw[1], /^attachment/);
  },
  "a line of a large file is found by its address": async (server, screen) => {
    const page = await files(screen, server, DESKTOP, "/large.txt:150000");
    await page.locator(".code-line.marked", { hasText: "line 150000 of" }).waitFor();
    const drawn = await page.locator(".code-line").count();
    assert.ok(drawn < 300, `${drawn} lines exist`);
    assert.equal(await button(page, "Edit").count(), 0, "it is too large to be edited");
    await button(page, "Mention in the message").click();
    await until("it is mentioned", async () => (await composer(page).inputValue()) === "@large.txt#L150000");
    await composer(page).fill("");
  },
  "a file is edited and saved, and a reload loses nothing": async (server, screen) => {
    const page = await files(screen, server, DESKTOP, "/src/main.rs");
    await button(page, "Edit").click();
    const area = page.locator(".file-editor");
    await area.fill("fn main() {}\n");
    await page.locator(".file-dirty").waitFor();
    await until("it is kept", () => page.evaluate(() => Object.keys(localStorage).some((it) => it.startsWith("towpath.file."))));
    await page.reload();
    await page.getByText("These are your changes that were not saved yet").waitFor();
    assert.equal(await area.inputValue(), "fn main() {}\n");
    await clean(page, "the editor");
    await area.focus();
    await page.keyboard.press("Control+s");
    await page.getByText("Saved.").waitFor();
    assert.equal(disk(server, "src/main.rs"), "fn main() {}\n");
    await page.locator(".file-dirty").waitFor({ state: "detached" });
    await button(page, "Close").click();
    await shows(page, "fn main() {}");
    // Line endings stay what they are.
    writeFileSync(join(server.project, "dos.txt"), "one\r\ntwo\r\n");
    await page.goto(`${server.address}/#/s/${session}/files/dos.txt`);
    await shows(page, "two");
    await button(page, "Edit").click();
    await area.fill("one\nzwei\n");
    await button(page, "Save").click();
    await until("it is saved", () => disk(server, "dos.txt") === "one\r\nzwei\r\n");
  },
  "changes of both sides are compared before one is lost": async (server, screen) => {
    const page = await files(screen, server, DESKTOP, "/src/main.rs");
    const area = page.locator(".file-editor");
    const dialog = page.getByRole("dialog", { name: "The file has changed" });
    await button(page, "Edit").click();
    await area.fill("fn mine() {}\n");
    writeFileSync(join(server.project, "src/main.rs"), "fn theirs() {}\n");
    await page.keyboard.press("Control+s");
    await dialog.locator(".diff .added").waitFor();
    assert.match(await dialog.locator(".diff").textContent(), /theirs.*mine/s);
    await clean(page, "a conflict");
    await dialog.getByRole("button", { name: "Go on editing" }).click();
    assert.equal(disk(server, "src/main.rs"), "fn theirs() {}\n");
    await area.focus();
    await page.keyboard.press("Control+s");
    await dialog.locator(".diff").waitFor();
    await dialog.getByRole("button", { name: "Save mine" }).click();
    await until("it is saved", () => disk(server, "src/main.rs") === "fn mine() {}\n");
    await page.locator(".file-dirty").waitFor({ state: "detached" });
    await area.fill("fn again() {}\n");
    writeFileSync(join(server.project, "src/main.rs"), "fn theirs() {}\n");
    await page.keyboard.press("Control+s");
    await dialog.locator(".diff").waitFor();
    await dialog.getByRole("button", { name: "Take theirs" }).click();
    await shows(page, "theirs");
    assert.equal(disk(server, "src/main.rs"), "fn theirs() {}\n");
  },
  "files are created, renamed and deleted": async (server, screen) => {
    const page = await files(screen, server, DESKTOP);
    await row(page, "src").focus();
    await page.getByRole("button", { name: "New file or directory" }).click();
    await page.getByRole("menuitem", { name: /New file/ }).click();
    const field = page.getByLabel("Path in the project");
    assert.equal(await field.inputValue(), "src/");
    await field.fill("src/main.rs");
    await page.keyboard.press("Enter");
    await page.getByText(/there is a file with that name already/i).waitFor();
    await field.fill("src/made.rs");
    await page.keyboard.press("Enter");
    await page.locator(".file-editor").fill("made\n");
    await button(page, "Save").click();
    await until("it is saved", () => existsSync(join(server.project, "src/made.rs")) && disk(server, "src/made.rs") === "made\n");
    await row(page, "made.rs").focus();
    await page.keyboard.press("F2");
    await field.fill("src/moved.rs");
    await page.keyboard.press("Enter");
    await row(page, "moved.rs").waitFor();
    await until("the address follows", async () => (await hash(page)).endsWith("/files/src/moved.rs"));
    await row(page, "moved.rs").focus();
    await page.keyboard.press("Delete");
    await page.getByRole("dialog", { name: "Delete file?" }).getByRole("button", { name: "Delete" }).click();
    await row(page, "moved.rs").waitFor({ state: "detached" });
    assert.equal(existsSync(join(server.project, "src/moved.rs")), false);
  },
  "files are uploaded by drop, anywhere on the page": async (server, screen) => {
    const page = await screen.page(DESKTOP, session);
    await drop(page, ".log, .empty", [{ name: "data table.csv", text: "a,b\n", type: "text/csv" }, { name: "two.bin", text: "2", type: "" }]);
    await until("both are mentioned", async () => (await composer(page).inputValue()) === '@".towpath/files/data table.csv" @.towpath/files/two.bin');
    assert.equal(disk(server, ".towpath/files/data table.csv"), "a,b\n");
    await composer(page).fill("");
    // An image on the message field is attached, as before; anything else is uploaded.
    await drop(page, ".composer textarea", [{ name: "p.png", text: "png", type: "image/png" }]);
    await page.locator(".picture").waitFor();
    await drop(page, ".composer textarea", [{ name: "three.txt", text: "3", type: "text/plain" }]);
    await until("it is mentioned", async () => (await composer(page).inputValue()) === "@.towpath/files/three.txt");
    await composer(page).fill("");
    await page.goto(`${server.address}/#/s/${session}/files`);
    await row(page, "src").click();
    await drop(page, ".tree", [{ name: "main.rs", text: "second", type: "" }]);
    await row(page, "main (2).rs").waitFor();
    assert.equal(disk(server, "src/main (2).rs"), "second");
    assert.equal(disk(server, "src/main.rs"), "fn theirs() {}\n", "nothing is replaced");
    await page.getByLabel("Files to upload").setInputFiles({ name: "chosen.txt", mimeType: "text/plain", buffer: Buffer.from("chosen") });
    await row(page, "chosen.txt").waitFor();
    assert.equal(await composer(page).inputValue(), "");
  },
  "what the agent writes appears when its turn ends": async (server, screen) => {
    const page = await files(screen, server, DESKTOP);
    assert.equal(await row(page, "log.txt").count(), 0);
    await server.prompt(session, "write the log");
    await row(page, "log.txt").waitFor();
    await row(page, "log.txt").click();
    await shows(page, "two");
    await server.prompt(session, "change the log");
    await shows(page, "223three");
    await page.goto(`${server.address}/#/s/${session}`);
    await idle(page);
    await page.locator(".turn .files summary").last().click();
    await page.locator(".turn .file-link").last().click();
    await page.getByRole("dialog", { name: "log.txt" }).getByRole("link", { name: "Open in Files" }).click();
    await shows(page, "three");
    assert.equal(await page.locator("dialog").count(), 0);
  },
  "on a phone the file is a second step": async (server, screen) => {
    const page = await files(screen, server, PHONE);
    assert.equal(await page.locator(".file-pane").isVisible(), false);
    await clean(page, "the tree on a phone");
    await row(page, "notes.md").tap();
    await page.locator(".file-preview h1").waitFor();
    assert.equal(await page.locator(".tree").isVisible(), false);
    await clean(page, "a file on a phone");
    await page.getByRole("button", { name: "All files" }).tap();
    await page.locator(".tree").waitFor();
    await row(page, "notes.md").tap();
    await page.locator(".file-preview h1").waitFor();
    await page.goBack();
    await page.locator(".tree").waitFor();
  },
  "who only watches has no files": async (server, screen) => {
    const { token } = await server.ask("POST", "/tokens", { name: "watcher", role: "watch" });
    const context = await screen.browser.newContext({ ...DESKTOP, reducedMotion: "reduce" });
    const page = await context.newPage();
    screen.watch(page);
    await page.goto(`${server.address}/#token=${encodeURIComponent(token)}`);
    await page.waitForFunction(() => !location.hash.includes("token"));
    await page.goto(`${server.address}/#/s/${session}/files/notes.md`);
    await page.waitForFunction(() => document.querySelector(".bar h1")?.textContent !== "…");
    assert.equal(await page.getByRole("link", { name: "Files" }).count(), 0);
    assert.equal(await page.locator(".files-view").count(), 0);
    await context.close();
  },
} });
