// A page that shows $SESSION. For each round it prints `asked` when the page asks, reads a line, answers
// if that is `answer`, and prints `settled` when the question is gone and the answer of the model is
// there. At last it prints the texts of the agent.
import { createInterface } from "node:readline";
import { assert, Screen, shown } from "./fixture.mjs";

const { ADDRESS, TOKEN, SESSION, ROUNDS } = process.env;
const screen = await Screen.open({ address: ADDRESS, token: TOKEN });
const page = await screen.page(undefined, SESSION);
const card = page.locator("section.request");
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
page.setDefaultTimeout(60_000);
for (let round = 1; round <= Number(ROUNDS); round += 1) {
  await card.waitFor();
  console.log("asked");
  const { value } = await lines.next();
  if (value === "answer") await card.getByRole("button", { name: /Allow once/ }).click();
  await card.waitFor({ state: "detached" });
  await page.waitForFunction((words) => document.querySelector(".log")?.textContent?.includes(words), `Round ${round} done.`);
  console.log("settled");
}
console.log(JSON.stringify(await shown(page)));
assert.deepEqual(screen.faults, []);
await screen.browser.close();
process.exit(0);
