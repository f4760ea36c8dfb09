// The pictures of the page in the documentation:
//
//     cargo test -p towpath --test web -- --ignored pictures
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { composer, steps } from "./fixture.mjs";

const { PICTURES } = process.env;
const DESK = { viewport: { width: 1500, height: 860 }, colorScheme: "light" };
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, colorScheme: "dark" };
const IDLE = ["Why is the timetable wrong in winter?", "Notes for the next release"];

const card = (page) => page.locator("section.request");

/** Shows a directory that is no temporary one. */
const rename = (page, from) =>
  page.evaluate((from) => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) node.data = node.data.replaceAll(from, "/home/ann/src/ferry");
  }, from);

await steps({ options: { demo: true }, steps: {
  "pictures": async (server, screen) => {
    const cwd = join(server.project, "ferry");
    mkdirSync(cwd);
    for (const title of IDLE) await server.session({ cwd, title });
    const session = await server.session({ cwd, title: "Holidays in the timetable" });
    await server.prompt(session, "Give me a tour");
    const page = await screen.page(DESK, session);
    for (;;) {
      await card(page).waitFor();
      if (/edit/.test(await card(page).locator("h2").textContent())) break;
      const id = await card(page).getAttribute("data-request");
      await card(page).getByRole("button", { name: /Allow once/ }).click();
      await page.waitForFunction((id) => document.querySelector("section.request")?.dataset.request !== id, id);
    }
    const phone = await screen.page(PHONE, session);
    await card(phone).waitFor();
    await composer(page).focus();
    for (const [shown, name] of [[page, "web-desk"], [phone, "web-phone"]]) {
      await rename(shown, cwd);
      await shown.screenshot({ path: join(PICTURES, `${name}.png`) });
    }
  },
} });
