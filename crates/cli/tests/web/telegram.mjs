// One session in the browser and in Telegram. The parent process plays Telegram, reads on stdout how
// far the page is, and writes a line to stdin when it is time to answer.
import { createInterface } from "node:readline";
import { assert, Screen } from "./fixture.mjs";

const { ADDRESS, TOKEN, SESSION } = process.env;
const screen = await Screen.open({ address: ADDRESS, token: TOKEN });
const page = await screen.page(undefined, SESSION);
const card = page.locator("section.request");
const says = (words) => page.waitForFunction((words) => document.querySelector(".log")?.textContent?.includes(words), words);

await card.waitFor();
console.log("asked");
await card.waitFor({ state: "detached" });
console.log("settled");
await says("First done.");
// Who answered, and where, stays with the call.
await says("Ann");

await card.waitFor();
console.log("asked again");
const input = createInterface({ input: process.stdin });
await new Promise((resolve) => input.once("line", resolve));
input.close();
await card.getByRole("button", { name: /Allow once/ }).click();
console.log("answered");
await says("Second done.");
assert.deepEqual(screen.faults, []);
await screen.browser.close();
