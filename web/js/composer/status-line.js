/**
 * The status line: what the agent does, its mode and model, its usage, and the connection.
 *
 * @module
 */

import { svgElement, fill, h } from "../ui/elements.js";
import {
  clock,
  compactNumber,
  dateTime,
  describePhase,
  dollars,
  duration,
  hasFailed,
  modeLabel,
  modelName,
  plural,
} from "../ui/format.js";

/** @typedef {import("../conversation/conversation.js").Conversation} Conversation */
/** @typedef {import("../connection.js").ConnectionState} ConnectionState */

export class StatusLine {
  /** @param {{ chooseMode: (anchor: HTMLElement) => void, chooseModel: (anchor: HTMLElement) => void, showAgent: () => void, showSchedule: () => void, continueAt: (resets: number) => void, modes: import("../gateway.js").Mode[] }} page */
  constructor(page) {
    this.modes = page.modes;
    this.dot = h("span", { class: "status-dot" });
    this.text = h("span", {});
    this.doing = h("span", { class: "doing" }, this.dot, this.text);
    this.mode = h("button", {
      type: "button",
      class: "chip-button",
      "aria-haspopup": "menu",
      title: "Permission mode (Shift+Tab)",
      onclick: () => page.chooseMode(this.mode),
    });
    this.model = h("button", {
      type: "button",
      class: "chip-button",
      "aria-haspopup": "menu",
      title: "Model and effort",
      onclick: () => page.chooseModel(this.model),
    });
    this.servers = h("button", {
      type: "button",
      class: "chip-button problem",
      hidden: true,
      onclick: () => page.showAgent(),
    });
    this.context = h("span", { class: "gauge", hidden: true });
    this.cost = h("span", { class: "cost", hidden: true });
    this.plan = h("span", { class: "limit", hidden: true });
    /** When the limit of the plan is reset, if it is reached. */
    this.resets = 0;
    this.continue = h("button", {
      type: "button",
      class: "chip-button later needs",
      hidden: true,
      title: "Sends a message that continues the work when the limit is reset",
      onclick: () => page.continueAt(this.resets),
    });
    this.schedules = h("button", {
      type: "button",
      class: "chip-button later",
      hidden: true,
      onclick: () => page.showSchedule(),
    });
    this.element = h(
      "div",
      { class: "status", role: "group", "aria-label": "Status" },
      this.doing,
      this.mode,
      this.model,
      this.servers,
      this.context,
      this.plan,
      this.continue,
      this.schedules,
      this.cost,
    );
  }

  /**
   * @param {Conversation} conversation
   * @param {import("../gateway.js").Session | undefined} session
   * @param {import("../gateway.js").AgentInfo} [agent] what the agent says about itself
   */
  show({ head, usage, status }, session, agent) {
    const acp = session?.agent.acp ?? false;
    const mode = (acp && agent?.modes?.current) || (head.mode ?? session?.mode ?? "");
    this.mode.textContent = acp
      ? (currentName(agent?.modes) ?? (mode || "mode"))
      : modeLabel(this.modes, mode);
    // An agent without modes has nothing to choose.
    this.mode.hidden = acp && agent?.modes === null;
    this.mode.className = acp ? "chip-button" : `chip-button ${mode}`;
    this.model.textContent = [
      currentName(agent?.models) ?? modelName(head.model ?? session?.model ?? ""),
      currentName(agent?.efforts) ?? head.effort ?? session?.effort,
    ]
      .filter(Boolean)
      .join(" · ");
    this.cost.hidden = usage.cost === undefined || usage.cost === null;
    if (usage.cost) this.cost.textContent = dollars(usage.cost);
    this.#gauge(usage.context, usage.window);
    this.#limits(usage, status);
  }

  /**
   * The fullest window of the plan, once it matters, and what is sent later.
   *
   * @param {Conversation["usage"]} usage
   * @param {Conversation["status"]} status
   */
  #limits(usage, status) {
    const windows = usage.windows?.length ? usage.windows : usage.plan ? [usage.plan] : [];
    const used = Math.max(0, ...windows.map((it) => it.used ?? 0));
    const rejected = usage.plan?.status === "rejected";
    this.plan.hidden = used < 0.75 && !rejected;
    this.plan.textContent = rejected ? "limit reached" : `limit ${Math.round(used * 100)} %`;
    this.plan.className = `limit ${rejected || used >= 0.9 ? "lost" : "needs"}`;
    this.plan.title = windows.map(describeWindow).join("\n");
    this.resets = (usage.plan?.resets_at ?? 0) * 1000;
    this.continue.hidden = !rejected || this.resets < Date.now() || status.schedules > 0;
    this.continue.textContent = `Continue at ${clock(this.resets)}`;
    this.schedules.hidden = !status.schedules;
    this.schedules.textContent = status.schedules ? `${status.schedules} scheduled` : "";
    this.schedules.title = status.next_schedule ? `Next: ${dateTime(status.next_schedule)}` : "";
  }

  /** @param {number} problems how many MCP servers have one */
  showServers(problems) {
    this.servers.hidden = !problems;
    const text = `${plural(problems, "MCP server")} cannot be used`;
    this.servers.textContent = `MCP ✘ ${problems}`;
    this.servers.title = text;
    this.servers.setAttribute("aria-label", text);
  }

  /** @param {Conversation | undefined} conversation @param {ConnectionState} connection @param {number} now */
  tick(conversation, connection, now) {
    if (connection.kind === "lost" && now - connection.since > 300) {
      const last = connection.received
        ? `, as of ${new Date(connection.received).toLocaleTimeString()}`
        : "";
      this.#show("lost", `Not connected${last}`, "lost");
      return;
    }
    if (!conversation) {
      this.#show("idle", "Connecting", "");
      return;
    }
    const { status } = conversation;
    const { phase } = status;
    const time =
      conversation.busy && status.turn_since
        ? ` · ${duration(Math.max(0, now - status.turn_since))}`
        : "";
    const failed = hasFailed(phase);
    const dot =
      phase.kind === "waiting"
        ? "needs"
        : failed
          ? "failed"
          : conversation.busy
            ? "running"
            : "live";
    this.#show(dot, describePhase(status, now) + time, phase.kind === "waiting" ? "needs" : "");
  }

  /** @param {string} dot @param {string} text @param {string} look */
  #show(dot, text, look) {
    this.dot.className = `status-dot ${dot}`;
    this.text.className = look;
    if (this.text.textContent !== text) this.text.textContent = text;
    this.text.title = text;
  }

  /** @param {number | null | undefined} context @param {number | null | undefined} window */
  #gauge(context, window) {
    this.context.hidden = !context;
    if (!context) return;
    const part = window ? Math.min(1, context / window) : 0;
    const label = window ? `${Math.round(part * 100)} %` : compactNumber(context);
    this.context.className = `gauge ${part >= 0.9 ? "full" : part >= 0.75 ? "high" : ""}`;
    this.context.title = `${compactNumber(context)} tokens of context${window ? ` of ${compactNumber(window)}` : ""}`;
    const round = 2 * Math.PI * 8;
    const circle = (/** @type {string} */ name, /** @type {number} */ share) =>
      svgElement("circle", {
        class: name,
        cx: 10,
        cy: 10,
        r: 8,
        "stroke-dasharray": `${round * share} ${round}`,
      });
    fill(
      this.context,
      window
        ? svgElement(
            "svg",
            { viewBox: "0 0 20 20", "aria-hidden": "true" },
            circle("", 1),
            circle("part-full", part),
          )
        : null,
      h("span", {}, label),
      h("span", { class: "visually-hidden" }, " of the context"),
    );
  }
}

/** @param {import("../gateway.js").PlanLimit} window */
function describeWindow(window) {
  const names = /** @type {Record<string, string>} */ ({
    five_hour: "Five hours",
    seven_day: "Week",
  });
  const name = names[window.window ?? ""] ?? window.window ?? "Limit";
  const used = window.used == null ? "" : `: ${Math.round(window.used * 100)} %`;
  const resets = window.resets_at ? `, resets ${dateTime(window.resets_at * 1000)}` : "";
  return `${name}${used}${resets}`;
}

/** The name of the value in effect. @param {import("../gateway.js").AgentMenu | null | undefined} menu */
function currentName(menu) {
  return menu?.values.find((it) => it.id === menu.current)?.name;
}
