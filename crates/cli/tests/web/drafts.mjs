// What a user wrote is never lost: it is a draft until the server has it.
import { assert, composer, DESKTOP, PHONE, say, steps, until } from "./fixture.mjs";

const pictures = (page) => page.locator(".pictures .picture");

/** Pastes an image of noise with this many pixels on each side. */
async function paste(page, side, name) {
  const before = await pictures(page).count();
  await page.evaluate(async ({ side, name }) => {
    const canvas = new OffscreenCanvas(side, side);
    const pen = canvas.getContext("2d");
    const noise = pen.createImageData(side, side);
    for (let at = 0; at < noise.data.length; at += 65_536) crypto.getRandomValues(noise.data.subarray(at, Math.min(at + 65_536, noise.data.length)));
    for (let at = 3; at < noise.data.length; at += 4) noise.data[at] = 255;
    pen.putImageData(noise, 0, 0);
    const data = new DataTransfer();
    data.items.add(new File([await canvas.convertToBlob({ type: "image/png" })], name, { type: "image/png" }));
    document.querySelector(".composer textarea").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  }, { side, name });
  await until("it is attached", async () => (await pictures(page).count()) === before + 1);
}

const stored = (page) => page.evaluate(() => new Promise((resolve) => {
  const open = indexedDB.open("towpath", 1);
  open.onsuccess = () => {
    const all = open.result.transaction("images").objectStore("images").getAllKeys();
    all.onsuccess = () => resolve(all.result.length);
  };
}));
const drafts = (page) => page.evaluate(() => Object.keys(localStorage).filter((it) => it.startsWith("towpath.draft")));
const sent = async (page) => {
  if (page.viewportSize().width < 800) await page.locator(".send").tap();
  else await composer(page).press("Enter");
};
/** How many images the agent was given with a prompt that has these words. */
const imagesGiven = async (server, session, words) => {
  const lines = await server.lines(session);
  const given = lines.find((line) => line.origin === "agent" && line.value.type === "user" && JSON.stringify(line.value.message).includes(words));
  return given?.value.message.content.filter((it) => it.type === "image").length;
};

await steps({ steps: {
  "words and pictures outlive being offline and a reload, and arrive once": async (server, screen) => {
    for (const kind of [DESKTOP, PHONE]) {
      const session = await server.session();
      const page = await screen.page(kind, session);
      await page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
      // 4 MB of images are more than the browser's local storage takes.
      for (const name of ["one.png", "two.png"]) await paste(page, 820, name);
      await until("they are stored", async () => (await stored(page)) === 2);
      await page.context().setOffline(true);
      await composer(page).fill("look at this");
      await sent(page);
      await page.reload().catch(() => undefined);
      await page.context().setOffline(false);
      await page.reload();
      await until("the words are back", async () => (await composer(page).inputValue().catch(() => "")) === "look at this");
      await until("the pictures are back", async () => (await pictures(page).count()) === 2);
      await sent(page);
      await page.waitForFunction(() => document.querySelector(".log")?.textContent?.includes("I saw the picture."));
      assert.equal(await server.given(session, "look at this"), 1);
      assert.equal(await imagesGiven(server, session, "look at this"), 2);
      await until("nothing stays behind", async () => (await stored(page)) === 0 && (await drafts(page)).length === 0);
      assert.equal(await pictures(page).count(), 0);
    }
  },
  "a message whose response is lost is not sent twice": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    // The server gets it, and the page never learns that.
    await page.route("**/prompts", async (route) => {
      await route.fetch();
      await page.context().setOffline(true);
      await route.abort();
    }, { times: 1 });
    await say(page, "hello there");
    await until("it is back in the field", async () => (await composer(page).inputValue()) === "hello there");
    await page.context().setOffline(false);
    await until("it is no draft, because it has arrived", async () => (await composer(page).inputValue()) === "");
    assert.equal(await server.given(session, "hello there"), 1);
    assert.deepEqual(await drafts(page), []);
  },
  "every session has its own draft, with its pictures": async (server, screen) => {
    const [one, other] = [await server.session(), await server.session()];
    const page = await screen.page(DESKTOP, one);
    await composer(page).fill("for the first");
    await paste(page, 20, "first.png");
    await screen.show(page, other);
    await until("the other has none", async () => (await composer(page).inputValue()) === "" && (await pictures(page).count()) === 0);
    await composer(page).fill("for the second");
    await page.evaluate((id) => (location.hash = `#/s/${id}`), one);
    await until("it is back", async () => (await composer(page).inputValue()) === "for the first" && (await pictures(page).count()) === 1);
    assert.match(await pictures(page).textContent(), /first\.png/);
    await page.getByRole("button", { name: "Remove first.png" }).click();
    await until("a removed picture is forgotten", async () => (await stored(page)) === 0);
    await page.reload();
    await until("the words are kept", async () => (await composer(page).inputValue().catch(() => "")) === "for the first");
    assert.equal(await pictures(page).count(), 0);
  },
  "a message that fails after the user went to another session is back in its own": async (server, screen) => {
    const [one, other] = [await server.session(), await server.session()];
    const page = await screen.page(DESKTOP, one);
    let fail;
    await page.route("**/prompts", async (route) => {
      await new Promise((resolve) => (fail = resolve));
      await route.fulfill({ status: 503, contentType: "application/problem+json", body: JSON.stringify({ title: "busy", detail: "The server is busy." }) });
    }, { times: 1 });
    await say(page, "words of the first");
    await until("it is on its way", () => fail);
    await page.evaluate((id) => (location.hash = `#/s/${id}`), other);
    await until("the other is shown", async () => (await composer(page).inputValue()) === "");
    await composer(page).fill("words of the second");
    fail();
    await page.waitForFunction(() => /Not sent/.test(document.querySelector(".toasts")?.textContent ?? ""));
    assert.equal(await composer(page).inputValue(), "words of the second");
    await page.evaluate((id) => (location.hash = `#/s/${id}`), one);
    await until("it is back", async () => (await composer(page).inputValue()) === "words of the first");
  },
  "words that are written while a message fails are kept beside it": async (server, screen) => {
    const session = await server.session();
    const page = await screen.page(DESKTOP, session);
    let fail;
    await page.route("**/prompts", async (route) => {
      await new Promise((resolve) => (fail = resolve));
      await route.fulfill({ status: 503, contentType: "application/problem+json", body: JSON.stringify({ title: "busy", detail: "The server is busy." }) });
    }, { times: 1 });
    const long = Array.from({ length: 800 }, (_, n) => `line ${n}`).join("\n");
    await say(page, long);
    await until("it is on its way", () => fail);
    await composer(page).fill("more words");
    fail();
    await until("both are there", async () => (await composer(page).inputValue()) === `${long}\nmore words`);
  },
} });
