// The views of `layout.mjs` that are about prompts that are sent later, with little, ordinary and very much
// content.
import { closeLayers } from "./layout-navigation.mjs";

const WORD = "x".repeat(5000);
const schedule = (n, text) => ({ id: `55555555-5555-4555-8555-${String(n).padStart(12, "0")}`, text, when: ["weekdays 09:00", "at 2026-11-17 09:00", "every 30m"][n % 3], zone: "America/Argentina/ComodRivadavia", next: 1_800_000_000_000 + n, by: { name: "link", via: "browser" }, created: 1 });
const schedules = (count, text) => ({ "GET /schedules": { schedules: Array.from({ length: count }, (_, n) => schedule(n, text)) } });
const open = async (page) => {
  await page.locator(".bar [aria-label='Session menu']").first().evaluate((it) => it.click());
  await page.waitForSelector(".popover button");
  await page.evaluate(() => [...document.querySelectorAll(".popover button")].find((it) => it.textContent.startsWith("Send later")).click());
  await page.waitForSelector("dialog .schedules, dialog .help-text");
};
/** @param {(name: string) => object} conversation what the page shows behind it */
export const scheduleViews = (conversation) => {
  const view = (name, replies) => ({ name: `send later, ${name}`, content: () => conversation("Fix the cart"), replies, open, close: closeLayers });
  const limit = (status, used) => ({ plan: { status, window: "five_hour", used, resets_at: Date.now() / 1000 + 7200 }, windows: [{ status, window: "five_hour", used, resets_at: Date.now() / 1000 + 7200 }, { window: "seven_day", used: 0.5 }] });
  const usage = (more) => ({ tokens: { input: 1, output: 1, cache_read: 0, cache_write: 0 }, cost: 1.25, ...more });
  return [
    view("nothing yet", schedules(0)),
    view("three", schedules(3, "Look through the new issues and answer what is easy")),
    view("fifty long words", schedules(50, WORD)),
    { name: "the limit is near", content: () => ({ ...conversation("Fix the cart"), usage: usage(limit("allowed_warning", 0.92)) }) },
    { name: "the limit is reached, and prompts are scheduled", content: () => ({ ...conversation("Fix the cart"), usage: usage(limit("rejected", 1)), status: { phase: { kind: "idle" }, queue_held: false, schedules: 12, next_schedule: 1_800_000_000_000 } }) },
    { name: "the limit is reached", content: () => ({ ...conversation("Fix the cart"), usage: usage(limit("rejected", 1)), status: { phase: { kind: "idle" }, queue_held: false, schedules: 0 } }) },
  ];
};
