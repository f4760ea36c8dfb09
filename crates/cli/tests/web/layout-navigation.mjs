// How the views of `layout*.mjs` are left: everything above the page is closed, and its entries are gone
// from the history.

/** Waits until the browser has gone back after a dialog was closed, which would undo what comes next. */
export const settled = (page) => page.waitForFunction(() => !history.state?.layer);

/** Closes all dialogs. */
export const closeDialogs = async (page) => {
  await page.evaluate(() => document.querySelectorAll("dialog").forEach((it) => it.close()));
  await page.waitForSelector("dialog", { state: "detached" });
  await settled(page);
};
