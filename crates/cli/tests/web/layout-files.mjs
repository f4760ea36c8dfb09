// The views of `layout.mjs` that are about files, each with little, ordinary and very much content.
import { closeLayers } from "./layout-navigation.mjs";

const LONG = "x".repeat(300);
const entry = (name, more = {}) => ({ name, kind: "file", link: false, size: 1200, modified: 1_760_000_000_000, ignored: false, ...more });
const directory = (name, more = {}) => entry(name, { kind: "directory", ...more });
const ORDINARY = [
  directory("src"), directory("target", { ignored: true }), entry(".gitignore"), entry("Cargo.toml"), entry("README.md"), entry("debug.log", { ignored: true }),
  entry("linked", { link: true }), entry("nowhere", { link: true, kind: "other" }), entry("pipe", { kind: "other" }), entry("caf\\xe9"), entry("line\nbreak \u202egnp.exe"),
];
const list = (entries) => ({ entries, total: entries.length, more: null });
/** Pages of a directory as the server gives them. */
const pages = (entries) => (request) => {
  const query = new URL(request.url()).searchParams;
  if (query.get("path")) return list([entry("inner.rs"), entry(LONG)]);
  const from = Number(query.get("after") ?? 0);
  const end = from + 2000;
  return { entries: entries.slice(from, end), total: entries.length, more: end < entries.length ? String(end) : null };
};
const DIRECTORIES = {
  empty: list([]),
  ordinary: pages(ORDINARY),
  "5,000 files": pages(Array.from({ length: 5000 }, (_, n) => (n < 40 ? directory(`directory-${n}`) : entry(`file-${n}.ts`)))),
  "300-character names": pages(Array.from({ length: 60 }, (_, n) => (n % 3 ? entry(`${n}${LONG}.ts`) : directory(`${n}${LONG}`, { ignored: true })))),
};
const file = (more = {}) => ({ kind: "text", size: 1200, modified: 1_760_000_000_000, tag: "t", lines: [], next: null, preview: null, has_preview: false, read_only: null, line_ending: "lf", ...more });
const code = (count, text = "<span class=tk>export</span> const value = compute(previous, next);") => Array.from({ length: count }, () => text);
const part = (request) => Number(new URL(request.url()).searchParams.get("offset") ?? 0);
const PARAGRAPH = "<h1>The shop</h1><p>How the cart is counted, and why it is <code>emptied</code> afterwards.</p><ul><li>one</li></ul><div class=\"table\"><table><tr><td>a table that is wider than any phone and scrolls in itself</td><td>because it has very many columns</td><td>like this one</td></tr></table></div>";
const PICTURE = "<svg xmlns='http://www.w3.org/2000/svg' width='3000' height='2000'><rect width='3000' height='2000' fill='teal'/></svg>";

/** A file: what it is, its path, and what is waited for. */
const FILES = {
  "one line": [file({ lines: code(1) }), "src/main.rs", ".code-line"],
  "ordinary text": [file({ lines: code(60) }), "src/main.rs", ".code-line"],
  "a 5 MB text": [(request) => file({ size: 5e6, lines: code(5000), next: part(request) < 90_000 ? part(request) + 5000 : null, read_only: "It is larger than 2 MB." }), "data/large.csv", ".long .code-line"],
  "one long line": [file({ lines: [`${LONG.repeat(13)}<span class="line-rest"> … 4990000 more characters</span>`] }), "dist/bundle.min.js", ".code-line"],
  "a 300-character name": [file({ lines: code(6) }), `${LONG}/${LONG}.ts`, ".code-line"],
  "an empty file": [file({ size: 0 }), "empty", ".file-note"],
  "a binary": [file({ kind: "binary", size: 123_456_789, read_only: "It is no text." }), "target/shop", ".file-card"],
  "a PDF": [file({ kind: "pdf", read_only: "It is no text." }), "docs/manual.pdf", ".file-card"],
  "Markdown": [(request) => file({ has_preview: true, lines: code(5), preview: new URL(request.url()).searchParams.get("preview") ? PARAGRAPH.repeat(30) : null }), "README.md", ".file-preview h1"],
  "an image": [file({ kind: "image" }), "logo.png", ".file-image img"],
  "a file that is gone": [{ status: 404, type: "x#not-found", title: "not found", detail: `There is no such file. ${LONG.repeat(8)}` }, "gone", ".file-note"],
};
const encode = (path) => path.split("/").map(encodeURIComponent).join("/");

/** The views, made with the functions of `layout-views.mjs`. */
export function fileViews({ back, press }) {
  const opened = (path, selector, then) => async (page, stubbed) => {
    const address = stubbed.address.replace(/^.*#/, "#");
    await page.evaluate((hash) => (location.hash = hash), `${address}/files${path && `/${encode(path)}`}`);
    await page.waitForSelector(selector);
    await then?.(page);
  };
  const replies = (view, listing = DIRECTORIES.ordinary) => ({
    "GET /files/list": listing, "GET /files/view": view,
    "GET /files/content": (request) => (request.url().includes("logo") ? { raw: PICTURE, type: "image/svg+xml" } : { raw: "export const value = 1;\n", type: "text/plain" }),
    "GET /files": { paths: Array.from({ length: 50 }, (_, n) => `src/${n}/${LONG.slice(0, n * 6)}.ts`) },
    "POST /files/compare": { html: `<div class="diff">${Array.from({ length: 300 }, (_, n) => `<div class=added><i>${n}</i><b>+</b><code>${LONG.slice(0, n)}</code></div>`).join("")}</div>`, added: 300, removed: 0, tag: "u" },
    "PUT /files/content": { status: 412, type: "x#changed", title: "changed", detail: "The file has changed." },
  });
  const menu = async (page) => { await press(".file-actions [aria-haspopup=menu]")(page); await page.waitForSelector(".popover button"); };
  const edit = (text) => async (page) => {
    await page.evaluate(() => [...document.querySelectorAll(".file-actions button")].find((it) => it.textContent === "Edit").click());
    await page.waitForSelector(".file-editor");
    await page.evaluate((text) => { const area = document.querySelector(".file-editor"); area.value = text; area.dispatchEvent(new Event("input")); }, text);
    await page.waitForSelector(".file-dirty");
  };
  const conflict = async (page) => {
    await edit("mine")(page);
    await page.evaluate(() => [...document.querySelectorAll(".file-actions button")].find((it) => it.textContent === "Save").click());
    await page.waitForSelector("dialog .diff");
  };
  const forget = async (page, stubbed) => {
    await closeLayers(page);
    await page.evaluate(() => [...document.querySelectorAll(".file-actions button")].find((it) => it.textContent === "Discard")?.click());
    await back(page, stubbed);
  };
  const search = async (page) => {
    await page.evaluate(() => { const field = document.querySelector(".files-tools input"); field.value = "a"; field.dispatchEvent(new Event("input")); });
    await page.waitForSelector(".tree-row small");
  };
  const rename = async (page) => { await menu(page); await page.evaluate(() => [...document.querySelectorAll(".popover button")].find((it) => it.textContent.startsWith("Rename")).click()); await page.waitForSelector("dialog #file-path"); };
  const [text, path, selector] = FILES["ordinary text"];
  return [
    ...Object.entries(DIRECTORIES).map(([name, listing]) => ({ name: `files, ${name}`, replies: replies(text, listing), open: opened("", name === "empty" ? ".tree-note" : ".tree-row"), close: back })),
    { name: "files, found", replies: replies(text), open: opened("", ".tree-row", search), close: back },
    { name: "files, unreadable directory", replies: replies(text, { status: 403, type: "x#denied", title: "denied", detail: `Not permitted ${LONG}` }), open: opened("", ".tree-note"), close: back },
    ...Object.entries(FILES).map(([name, [view, path, selector]]) => ({ name: `file, ${name}`, replies: replies(view), open: opened(path, selector), close: back })),
    { name: "file, menu", each: true, replies: replies(text), open: opened(path, selector, menu), close: back },
    { name: "file, edited", replies: replies(text), open: opened(path, selector, edit(`${LONG}\n`.repeat(400))), close: forget },
    { name: "file, conflict", replies: replies(text), open: opened(path, selector, conflict), close: forget },
    { name: "file, rename", replies: replies(text), open: opened(`${LONG}/${LONG}`, selector, rename), close: forget },
  ];
}
