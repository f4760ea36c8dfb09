// Every colour that text is written in, on every ground it stands on, in light and in dark: at least
// 4.5 to 1, and 7 to 1 in high contrast. Needs no browser.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const style = readFileSync(join(process.env.PAGES, "../crates/view/src/html/style.css"), "utf8");
const colours = (text) => Object.fromEntries([...text.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6})/g)].map(([, name, value]) => [name, value]));
const part = (from, to) => style.slice(style.indexOf(from), style.indexOf(to));
const light = colours(part(":root {", "@media (prefers-color-scheme: dark)"));
const dark = { ...light, ...colours(part(":root[data-theme=dark]", ":root[data-theme=light]")) };
assert.deepEqual({ ...light, ...colours(part("@media (prefers-color-scheme: dark)", ":root[data-theme=dark]")) }, dark, "dark by choice is dark by the system");

const own = colours(part(":root[data-theme=contrast]", "\n.item {"));
const strong = { ...light, ...own };
assert.deepEqual(Object.keys(dark).filter((name) => dark[name] !== light[name] && !own[name]), [], "a dark system changes nothing of high contrast");

const GROUNDS = ["back", "card", "sunk"];
/** What is no colour of text: grounds, borders, and marks behind text. */
const OTHER = ["line", "look", "prompt", "bad-back", "added", "added-mark", "removed", "removed-mark", ...GROUNDS];
const PAIRS = [
  ...Object.keys(light).filter((name) => !OTHER.includes(name)).flatMap((name) => GROUNDS.map((ground) => [name, ground])),
  ["text", "prompt"], ["accent", "prompt"], ["bad", "bad-back"], ["good", "added"], ["bad", "removed"],
  ...["added", "removed"].flatMap((ground) => [["text", ground], ["soft", ground], ["text", `${ground}-mark`]]),
];

function brightness(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((it) => (it <= 0.03928 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one, other) {
  const [dim, bright] = [brightness(one), brightness(other)].sort((a, b) => a - b);
  return (bright + 0.05) / (dim + 0.05);
}

assert.ok(PAIRS.length > 90, `${PAIRS.length} pairs`);
const LEAST = { light: 4.5, dark: 4.5, strong: 7 };
const poor = Object.entries({ light, dark, strong }).flatMap(([theme, all]) => PAIRS.map(([name, ground]) => [theme, name, ground, contrast(all[name], all[ground]).toFixed(2)])).filter(([theme, , , ratio]) => !(ratio >= LEAST[theme]));
assert.deepEqual(poor, []);
