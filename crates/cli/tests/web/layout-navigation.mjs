// How the views of `layout*.mjs` are left: everything above the page is closed, and its entries are gone
// from the history.

/** Waits until the browser has gone back after a dialog was closed, which would undo what comes next. */
export const settled = (page) => page.waitForFunction(() => !history.state?.layer);

/** Closes dialogs, menus and the drawer. */
export const closeLayers = async (page) => {
  await page.evaluate(() => {
    for (const menu of document.querySelectorAll("[popover]:popover-open")) menu.hidePopover();
    for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
    document.querySelector(".scrim:not([hidden])")?.click();
  });
  await page.waitForSelector("dialog[open]", { state: "detached" });
  await settled(page);
};

/** Shows the conversation, with nothing above it. */
export const returnToConversation = async (page, stubbed) => {
  await closeLayers(page);
  if ((await page.evaluate(() => location.href)) !== stubbed.address) await page.goto(stubbed.address);
  await page.waitForFunction(() => document.querySelector(".composer") && !document.querySelector(".page.viewing"));
};
