// Every card, sheet, dialog and menu of the page, with little, ordinary and very much content, on every
// kind of screen, in light and in dark. `layout-checks.mjs` says what must hold.
import { availableParallelism } from "node:os";
import { layoutFaults } from "./layout-checks.mjs";
import { settled } from "./layout-navigation.mjs";
import { VIEWS } from "./layout-views.mjs";
import { assert, Screen, Server } from "./fixture.mjs";
import { StubbedPage } from "./stub-api.mjs";

/** The smallest size of a control for a mouse and for a finger. */
const [MOUSE, FINGER] = [24, 44];
const TOUCH = { isMobile: true, hasTouch: true };
const KINDS = [
  { name: "mouse", target: MOUSE, kind: {}, sizes: [[1440, 900], [1280, 720], [1024, 768]] },
  { name: "touch", target: FINGER, kind: TOUCH, sizes: [[390, 844], [320, 568], [844, 390], [390, 400]] },
];

/** How many pages show views at the same time, for each kind of screen: one for each processor. */
const PAGES = Math.max(1, Math.min(3, availableParallelism() >> 1));

/** Only views with these words in their names, for work on one of them. */
const ONLY = process.env.ONLY ?? "";
const SHOTS = process.env.SHOTS;

const server = await Server.start({ demo: true });
const screen = await Screen.open(server);
const found = new Map();
let checked = 0;

/** One view in all sizes and both themes. */
async function tryView(stubbed, { target, sizes }, view) {
  const { page } = stubbed;
  const check = async (width, height) => {
    // Colours differ between layouts, of which there is one for the first sizes and one for the last.
    const contrast = [sizes[0], sizes.at(-1)].some(([wide, high]) => wide === width && high === height);
    const faults = await page.evaluate(layoutFaults, { target, contrast });
    checked += 2;
    for (const fault of faults) {
      const key = `${view.name}: ${fault}`;
      found.set(key, [...(found.get(key) ?? []), `${width}×${height}`]);
    }
    if (SHOTS) await page.setViewportSize({ width, height });
    if (SHOTS) await page.screenshot({ path: `${SHOTS}/${view.name.replaceAll(/\W+/g, "-")}-${width}x${height}.png` });
  };
  stubbed.replies = view.replies ?? {};
  const role = view.role ?? "admin";
  const otherRole = role !== stubbed.me.role;
  stubbed.me.role = role;
  if (view.fresh || otherRole) await stubbed.reload();
  // This is quicker than the size of a window, of which there are a thousand.
  const size = async (one) => {
    if (stubbed.size === one) return;
    stubbed.size = one;
    const [width, height] = one;
    await stubbed.devtools.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: target === FINGER });
  };
  if (view.each) {
    for (const one of sizes) {
      await size(one);
      await settled(page);
      await stubbed.show(view.content?.() ?? {}, view.sessions?.());
      await view.open(page, stubbed);
      await check(...one);
      await view.close?.(page, stubbed);
    }
    return;
  }
  await size(sizes[0]);
  await settled(page);
  if (!view.bare) await stubbed.show(view.content?.() ?? {}, view.sessions?.());
  await view.open?.(page, stubbed);
  for (const one of sizes) {
    await size(one);
    await check(...one);
  }
  await view.close?.(page, stubbed);
}

/** Opens a page and shows views in it until there are none left. */
async function showViews(kind, views) {
  const [width, height] = kind.sizes[0];
  const stubbed = await StubbedPage.open(screen.browser, server, { ...kind.kind, viewport: { width, height } }, undefined, (page) => screen.watch(page));
  // A busy machine is slow, and nothing here is expected to fail.
  stubbed.page.setDefaultTimeout(60_000);
  stubbed.devtools = await stubbed.context.newCDPSession(stubbed.page);
  for (let view = views.shift(); view; view = views.shift()) {
    try {
      await tryView(stubbed, kind, view);
    } catch (problem) {
      throw new Error(`${view.name} (${kind.name}): ${problem.stack}`);
    }
  }
  await stubbed.context.close();
}

const began = Date.now();
try {
  await Promise.all(
    KINDS.flatMap((kind) => {
      // Every page takes the next view that none has shown yet.
      const views = VIEWS.filter((it) => it.name.includes(ONLY));
      return Array.from({ length: PAGES }, () => showViews(kind, views));
    }),
  );
  console.log(`${VIEWS.length} views, ${checked} layouts in ${Math.round((Date.now() - began) / 1000)} s`);
  const report = [...found].map(([fault, where]) => `${fault} (${where.length} ×: ${where.slice(0, 3).join(", ")})`);
  assert.equal(report.length, 0, `${report.length} faults in ${[...found.values()].flat().length} places:\n${report.join("\n")}`);
  await screen.close();
} finally {
  await screen.browser.close().catch(() => undefined);
  await server.stop();
}
