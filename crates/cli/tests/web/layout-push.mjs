// The views of `layout.mjs` that are about notifications, and about signing in on another device.

/** A square with as much ink as a QR code. */
const PICTURE = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 41 41"><path fill="#fff" d="M0 0h41v41H0z"/><path d="${Array.from({ length: 33 }, (_, row) => `M4 ${row + 4}h${(row * 7) % 33}v1h-${(row * 7) % 33}z`).join("")}"/></svg>`;

/** What this browser remembers, for as long as it takes to open a dialog. */
const remembering = (names, open) => async (page) => {
  await page.evaluate((names) => names.forEach((name) => localStorage.setItem(`towpath.${name}`, "on")), names);
  await open(page);
  await page.waitForSelector("dialog [data-setting=notify]");
  await page.evaluate((names) => names.forEach((name) => localStorage.removeItem(`towpath.${name}`)), names);
};

const createToken = async (page) => {
  await page.waitForSelector("[data-token]");
  await page.locator("dialog .token-form input").fill("phone");
  await page.evaluate(() => document.querySelector(".token-form").requestSubmit());
  await page.waitForSelector(".secret");
};

export const pushViews = ({ dialog, settings, fromSettings, tokens }) => [
  dialog("settings, notified and installable", remembering(["notify", "push"], async (page) => {
    await page.evaluate(() => dispatchEvent(new Event("beforeinstallprompt", { cancelable: true })));
    await settings(page);
  }), { then: (page) => page.evaluate(() => import("/js/notifications.js").then((it) => delete it.install.prompt)) }),
  dialog("settings, notifications are blocked", settings, {
    then: async (page) => {
      await page.evaluate(() => document.querySelector("[data-setting=notify] input").click());
      await page.waitForFunction(() => document.querySelector("dialog .form-error").textContent);
    },
  }),
  dialog("tokens, a new one with a QR code", fromSettings("Manage: Access tokens"), {
    replies: { "GET /tokens": tokens(2, "phone"), "POST /tokens": { name: "phone", token: "t".repeat(43), qr: PICTURE } },
    then: async (page) => { await createToken(page); await page.waitForFunction(() => document.querySelector(".qr img").complete); },
  }),
  dialog("tokens, a new one that no phone can use", fromSettings("Manage: Access tokens"), {
    replies: { "GET /tokens": tokens(1, "phone"), "POST /tokens": { name: "phone", token: "t".repeat(43), qr: null } },
    then: createToken,
  }),
];
