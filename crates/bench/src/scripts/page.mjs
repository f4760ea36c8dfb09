// Opens a session in Chromium, several times and without a cache, and prints the figures of each load.
import { chromium } from "playwright-core";

const [, , browserPath, origin, token, session, last, loads] = process.argv;
const FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
const browser = await chromium.launch({ executablePath: browserPath, args: FLAGS });
try {
  for (let load = 0; load < Number(loads); load += 1) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, serviceWorkers: "block" });
    const page = await context.newPage();
    // Signing in sets the cookie; what it loads is not counted.
    await page.goto(`${origin}/#token=${token}`);
    await page.waitForSelector(".sidebar");
    await page.goto("about:blank");
    const devtools = await context.newCDPSession(page);
    await devtools.send("Network.enable");
    await devtools.send("Network.clearBrowserCache");
    let traffic = 0;
    devtools.on("Network.loadingFinished", ({ encodedDataLength }) => (traffic += encodedDataLength));
    const begin = Date.now();
    await page.goto(`${origin}/#/s/${session}`);
    await page.waitForFunction((last) => document.querySelector(".log")?.textContent.includes(last), last, { polling: "raf" });
    const shown = Date.now() - begin;
    const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
    const files = await page.evaluate(() => {
      const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
      return all.filter((it) => !it.name.includes("/api/")).reduce((sum, it) => sum + it.encodedBodySize, 0);
    });
    console.log(JSON.stringify({ files, traffic, paint, shown }));
    await context.close();
  }
} finally {
  await browser.close();
}
