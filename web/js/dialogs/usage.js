/**
 * The usage page: cost and tokens by day, model and session.
 *
 * @module
 */

import { callApi } from "../api.js";
import { svgElement, fill, h } from "../ui/elements.js";
import { loadStylesheet } from "../ui/stylesheets.js";
import { clock, compactNumber, dateTime, dollars, modelName } from "../ui/format.js";

await Promise.all(["/css/fields.css", "/css/usage.css"].map(loadStylesheet));

/** @typedef {import("../gateway.js").UsageRow} Row */
/** @typedef {{ name: string, link?: string, cost: number, turns: number, input: number, output: number, cache: number }} Sum */

const WIDTH = 760;
const HEIGHT = 190;
const LEFT = 52;
const BELOW = 22;

/** @param {boolean} canDrive whether the user may schedule prompts */
export function usagePage(canDrive) {
  const place = h("div", { class: "usage" }, h("p", {}, "…"));
  const days = h(
    "select",
    { "aria-label": "Period" },
    ...[7, 30, 90].map((it) => h("option", { value: it, selected: it === 30 }, `${it} days`)),
  );
  const load = async () => {
    try {
      /** @type {import("../gateway.js").UsageTableResponse} */
      const usage = await callApi("GET", `/usage?days=${days.value}`);
      fill(
        place,
        h("div", { class: "span" }, days),
        ...planWindows(usage.windows ?? [], canDrive),
        ...report(usage.days, Number(days.value), budgetOfDay(usage)),
      );
    } catch (problem) {
      fill(place, h("p", { class: "form-error" }, /** @type {Error} */ (problem).message));
    }
  };
  days.addEventListener("change", () => void load());
  void load();
  return place;
}

/** @param {import("../gateway.js").UsageTableResponse} usage */
function budgetOfDay({ today, budget_per_day: budget }) {
  if (!budget) return undefined;
  return h(
    "li",
    { class: today >= budget ? "spent" : "" },
    h("b", {}, `${dollars(today)} of ${dollars(budget)}`),
    "budget of today, UTC",
    meter("Budget of today", today / budget),
  );
}

/**
 * The windows of the plan, as the agents reported them last.
 *
 * @param {import("../gateway.js").PlanWindow[]} windows
 * @param {boolean} canDrive
 */
function planWindows(windows, canDrive) {
  if (!windows.length) return [];
  return [
    h("h2", {}, "Plan"),
    h("ul", { class: "figures plan-windows" }, ...windows.map((it) => planWindow(it, canDrive))),
  ];
}

/** @param {import("../gateway.js").PlanWindow} window @param {boolean} canDrive */
function planWindow(window, canDrive) {
  const now = Date.now();
  const resets = (window.resets_at ?? 0) * 1000;
  const isReset = resets > 0 && resets <= now;
  const isRejected = window.status === "rejected" && !isReset;
  const used = isReset ? 0 : isRejected ? 1 : window.used;
  const name = WINDOWS[window.window ?? ""] ?? (window.window ?? "limit").replaceAll("_", " ");
  const title = window.title || window.session.slice(0, 8);
  return h(
    "li",
    { class: isRejected ? "spent" : "" },
    h("b", {}, isRejected ? "Used up" : used == null ? "Not used up" : `${percent(used)} %`),
    h("span", { class: "window-name" }, name),
    used != null && meter(name, used),
    resets > 0 &&
      h("span", {}, isReset ? `was reset ${dateTime(resets)}` : `resets ${dateTime(resets)}`),
    h(
      "span",
      {},
      `as of ${dateTime(window.at)}, `,
      h("a", { href: `#/s/${window.session}` }, title),
    ),
    isRejected && resets > now && canDrive && continueButton(window.session, resets),
  );
}

/** Has the session that met the limit go on when the window opens. @param {string} session @param {number} resets */
function continueButton(session, resets) {
  const button = h("button", { type: "button", class: "button" }, `Continue at ${clock(resets)}`);
  button.addEventListener("click", async () => {
    button.disabled = true;
    const { continueAt } = await import("../schedule/schedule-dialog.js");
    button.disabled = await continueAt({ id: session }, resets);
  });
  return button;
}

/** The names of windows for people. */
const WINDOWS = /** @type {Record<string, string>} */ ({
  five_hour: "five-hour window",
  seven_day: "seven-day window",
  seven_day_opus: "seven-day window, Opus",
  seven_day_sonnet: "seven-day window, Sonnet",
});

/** @param {number} part */
const percent = (part) => Math.round(Math.min(1, Math.max(0, part)) * 100);

/** @param {string} name @param {number} part */
function meter(name, part) {
  const value = percent(part);
  return h(
    "div",
    {
      class: `window-meter ${value >= 90 ? "full" : value >= 75 ? "high" : ""}`,
      role: "meter",
      "aria-label": name,
      "aria-valuemin": "0",
      "aria-valuemax": "100",
      "aria-valuenow": String(value),
    },
    svgElement(
      "svg",
      { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
      svgElement("rect", { width: value, height: 4 }),
    ),
  );
}

/** @param {Row[]} rows @param {number} length @param {HTMLElement} [budget] the budget of today */
function report(rows, length, budget) {
  const all = sums(rows, () => ["all", undefined])[0] ?? {
    cost: 0,
    turns: 0,
    input: 0,
    output: 0,
    cache: 0,
  };
  const byDay = new Map(sums(rows, (row) => [row.day, undefined]).map((it) => [it.name, it]));
  const days = calendar(length).map(
    (day) => byDay.get(day) ?? { name: day, cost: 0, turns: 0, input: 0, output: 0, cache: 0 },
  );
  const figure = (/** @type {string} */ value, /** @type {string} */ name) =>
    h("li", {}, h("b", {}, value), name);
  return [
    h(
      "ul",
      { class: "figures" },
      figure(dollars(all.cost), "cost, as reported by the agent"),
      figure(compactNumber(all.turns), "turns"),
      figure(compactNumber(all.input + all.cache), "input tokens"),
      figure(compactNumber(all.output), "output tokens"),
      budget,
    ),
    h("h2", {}, "Cost by day"),
    h(
      "div",
      { class: "chart" },
      bars(days, [["bar-cost", (day) => day.cost]], dollars, "Cost by day"),
    ),
    h("h2", {}, "Tokens by day"),
    h(
      "div",
      { class: "chart" },
      bars(
        days,
        [
          ["t-cache", (day) => day.cache],
          ["t-input", (day) => day.input],
          ["t-output", (day) => day.output],
        ],
        compactNumber,
        "Tokens by day",
      ),
      h(
        "ul",
        { class: "legend" },
        ...[
          ["t-cache", "cache"],
          ["t-input", "input"],
          ["t-output", "output"],
        ].map(([name, words]) => h("li", {}, h("i", { class: name }), words)),
      ),
    ),
    h("h2", {}, "By model"),
    table(
      "Model",
      sums(rows, (row) => [modelName(row.model), undefined]),
    ),
    h("h2", {}, "By session"),
    table(
      "Session",
      sums(
        rows,
        (row) => [row.title || row.session.slice(0, 8), `#/s/${row.session}`],
        (row) => row.session,
      ),
    ),
  ];
}

/**
 * @param {Row[]} rows
 * @param {(row: Row) => [string, string | undefined]} named
 * @param {(row: Row) => string} [key]
 * @returns {Sum[]} the most expensive first
 */
function sums(rows, named, key = (row) => named(row)[0]) {
  /** @type {Map<string, Sum>} */ const found = new Map();
  for (const row of rows) {
    const [name, link] = named(row);
    const sum = found.get(key(row)) ?? {
      name,
      link,
      cost: 0,
      turns: 0,
      input: 0,
      output: 0,
      cache: 0,
    };
    sum.cost += row.cost ?? 0;
    sum.turns += row.turns;
    sum.input += row.tokens.input;
    sum.output += row.tokens.output;
    sum.cache += row.tokens.cache_read + row.tokens.cache_write;
    found.set(key(row), sum);
  }
  return [...found.values()].sort((a, b) => b.cost - a.cost || b.output - a.output);
}

/** The last days in the server's format, today last. @param {number} length */
function calendar(length) {
  const today = Date.now();
  return Array.from({ length }, (_, n) =>
    new Date(today - (length - 1 - n) * 86_400_000).toISOString().slice(0, 10),
  );
}

/**
 * Stacked bars.
 *
 * @param {Sum[]} days
 * @param {[string, (day: Sum) => number][]} parts
 * @param {(value: number) => string} format
 * @param {string} label
 */
function bars(days, parts, format, label) {
  const total = (/** @type {Sum} */ day) => parts.reduce((sum, [, value]) => sum + value(day), 0);
  const most = round(Math.max(...days.map(total), 0));
  const svg = svgElement("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: "img",
    "aria-label": `${label}: ${
      days
        .filter((day) => total(day) > 0)
        .map((day) => `${day.name} ${format(total(day))}`)
        .join(", ") || "no usage"
    }`,
  });
  const y = (/** @type {number} */ value) =>
    HEIGHT - BELOW - (most ? value / most : 0) * (HEIGHT - BELOW - 12);
  for (const share of [0, 0.5, 1]) {
    const height = y(most * share);
    svg.append(
      svgElement("path", { class: "grid", d: `M${LEFT} ${height}H${WIDTH}` }),
      svgElement(
        "text",
        { x: LEFT - 8, y: height + 4, "text-anchor": "end" },
        format(most * share),
      ),
    );
  }
  const step = (WIDTH - LEFT) / days.length;
  const every = Math.ceil(days.length / 8);
  days.forEach((day, n) => {
    const x = LEFT + n * step;
    let below = 0;
    for (const [name, value] of parts) {
      const amount = value(day);
      if (amount > 0) {
        const bar = svgElement("rect", {
          class: name,
          x: x + step * 0.16,
          y: y(below + amount),
          width: Math.min(step * 0.68, 46),
          height: Math.max(0.5, y(below) - y(below + amount)),
          rx: 2,
        });
        bar.append(svgElement("title", {}, `${day.name}: ${format(total(day))}`));
        svg.append(bar);
      }
      below += amount;
    }
    if ((days.length - 1 - n) % every === 0)
      svg.append(
        svgElement(
          "text",
          {
            x: x + step / 2,
            y: HEIGHT - 6,
            "text-anchor": n === days.length - 1 && step < 40 ? "end" : "middle",
          },
          day.name.slice(5),
        ),
      );
  });
  return svg;
}

/** The next round number. @param {number} value */
function round(value) {
  if (value <= 0) return 0;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((it) => it * size).find((it) => it >= value) ?? value;
}

/** @param {string} first @param {Sum[]} rows */
function table(first, rows) {
  const most = Math.max(...rows.map((row) => row.cost), 1e-9);
  return h(
    "div",
    { class: "table-wrap" },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ...[first, "Turns", "Input", "Output", "Cost"].map((it) => h("th", { scope: "col" }, it)),
        ),
      ),
      h(
        "tbody",
        {},
        ...rows.slice(0, 50).map((row) => {
          const share = h("i", {});
          share.style.width = `${Math.round((row.cost / most) * 100)}%`;
          return h(
            "tr",
            {},
            h(
              "td",
              { class: "share" },
              row.link ? h("a", { href: row.link }, row.name) : row.name,
              share,
            ),
            h("td", {}, row.turns),
            h("td", {}, compactNumber(row.input + row.cache)),
            h("td", {}, compactNumber(row.output)),
            h("td", {}, dollars(row.cost)),
          );
        }),
        !rows.length && h("tr", {}, h("td", { colspan: "5" }, "No usage in this period")),
      ),
    ),
  );
}
