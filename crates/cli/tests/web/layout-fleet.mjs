// The views of `layout.mjs` that are about a fleet: its workers, and where a session is. All their names begin
// with `workers`.
import { closeLayers } from "./layout-navigation.mjs";
import { session } from "./stub-api.mjs";

const WORD = "x".repeat(300);
const AWAY = Date.UTC(2026, 0, 31, 11, 58);
const worker = (n, more = {}) => ({ name: `w${n}`, pool: n % 2 ? "linux" : null, slots: 4, used: n % 5, roots: ["/home/me/src"], version: "0.1.0", connected: true, away_since: null, sessions: n, ...more });
const many = (count) => Array.from({ length: count }, (_, n) => worker(n + 1, n % 3 ? {} : { connected: false, away_since: n % 2 ? AWAY : null }));
const long = [worker(1, { name: WORD, pool: WORD, roots: Array.from({ length: 8 }, () => `/${WORD}`), version: WORD, slots: 4_294_967_295, used: 4_294_967_295, sessions: 1_000_000 }), worker(2, { name: `${WORD}2`, connected: false, away_since: AWAY })];
/** How many workers there are. */
const SIZES = { tiny: [], typical: many(4), huge: many(200), "long words": long };
const HIDDEN = { worker: null, worker_away: false, worker_away_since: null };

/** The page of a gateway of a fleet. */
const inFleet = (view) => ({
  ...view,
  fresh: true,
  open: async (page, stubbed) => {
    stubbed.me.fleet = true;
    await stubbed.reload();
    await stubbed.show(view.content?.() ?? {}, view.sessions?.());
    await view.open?.(page, stubbed);
  },
  close: async (page, stubbed) => {
    await view.close?.(page, stubbed);
    stubbed.me.fleet = false;
    await stubbed.reload();
  },
});

export const fleetViews = ({ conversation, fromSettings, press, drawer }) => {
  const content = () => conversation("Fix the cart");
  const listed = (workers) => ({ "GET /workers": { workers } });
  const rows = (name) => () => [
    session({ ...HIDDEN, worker: name }),
    ...Array.from({ length: 12 }, (_, n) => session({ id: `66666666-6666-4666-8666-${String(n).padStart(12, "0")}`, cwd: `/home/me/p${n % 3}`, worker: name, worker_away: n % 2 === 0, worker_away_since: n % 4 ? AWAY : null, problem: n % 2 ? null : `worker \`${name}\` is away (for 12 s)` })),
  ];
  const away = (name, since) => () => [session({ worker: name, worker_away: true, worker_away_since: since, problem: "its worker is away" })];
  return [
    ...Object.entries(SIZES).flatMap(([size, workers]) => [
      inFleet({
        name: `workers, ${size}`, content, replies: listed(workers), close: closeLayers,
        open: async (page) => {
          await fromSettings("Show: Workers")(page);
          await page.waitForSelector(".workers table, .workers .help-text");
        },
      }),
      inFleet({
        name: `workers to choose from, ${size}`, content, replies: listed(workers), close: closeLayers,
        open: async (page) => {
          await press(".sidebar [aria-label='New session']")(page);
          await page.waitForSelector("dialog[open] [data-option=model]");
          if (workers.filter((it) => it.connected).length > 1) await page.waitForFunction(() => [...document.querySelectorAll("dialog .field")].some((it) => it.textContent.startsWith("Worker") && !it.hidden));
        },
      }),
    ]),
    inFleet({ name: "workers of sessions", content, sessions: rows("w1"), ...drawer }),
    inFleet({ name: "workers of sessions, long words", content, sessions: rows(WORD), ...drawer }),
    inFleet({ name: "workers of sessions, away", content, sessions: away("build-machine-3", AWAY) }),
    ...[["away", true], ["connected", false]].map(([state, worker_away]) =>
      inFleet({
        name: `workers to move a session to, ${state}`, content, replies: listed(many(4)), close: closeLayers,
        sessions: () => [session({ ...HIDDEN, worker: "w2", worker_away })],
        open: async (page) => {
          await press(".bar [aria-label='Session menu']")(page);
          await page.waitForSelector(".popover button");
          await page.evaluate(() => [...document.querySelectorAll(".popover button")].find((it) => it.textContent.startsWith("Move to another")).click());
          await page.waitForSelector("dialog[open] option", { state: "attached" });
        },
      }),
    ),
    inFleet({ name: "workers of sessions, no connection", content, sessions: () => [session({ ...HIDDEN, worker: "w1", problem: "this gateway has no connection to the fleet's servers: nothing can be sent, and what is shown may have changed" })] }),
    inFleet({ name: "workers of sessions, away with a long name", content, sessions: away(WORD, null) }),
  ];
};
