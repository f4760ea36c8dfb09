/**
 * The status line: what the agent does, its mode and model, its usage, and the connection.
 *
 * @module
 */

import { svgElement, fill, h } from "../ui/elements.js";
import {
  compactNumber,
  describePhase,
  dollars,
  duration,
  hasFailed,
  modeLabel,
  modelName,
} from "../ui/format.js";

/** @typedef {import("../conversation/conversation.js").Conversation} Conversation */
/** @typedef {import("../connection.js").ConnectionState} ConnectionState */

export class StatusLine {
  /** @param {{ chooseMode: (anchor: HTMLElement) => void, chooseModel: (anchor: HTMLElement) => void, modes: import("../gateway.js").Mode[] }} page */
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
    this.context = h("span", { class: "gauge", hidden: true });
    this.cost = h("span", { class: "cost", hidden: true });
    this.plan = h("span", { class: "limit", hidden: true });
    this.element = h(
      "div",
      { class: "status", role: "group", "aria-label": "Status" },
      this.doing,
      this.mode,
      this.model,
      this.context,
      this.plan,
      this.cost,
    );
  }

  /** @param {Conversation} conversation @param {import("../gateway.js").Session | undefined} session */
  show({ head, usage }, session) {
    const mode = head.mode ?? session?.mode ?? "";
    this.mode.textContent = modeLabel(this.modes, mode);
    this.mode.className = `chip-button ${mode}`;
    this.model.textContent = [
      modelName(head.model ?? session?.model ?? ""),
      head.effort ?? session?.effort,
    ]
      .filter(Boolean)
      .join(" · ");
    this.cost.hidden = usage.cost === undefined || usage.cost === null;
    if (usage.cost) this.cost.textContent = dollars(usage.cost);
    this.#gauge(usage.context, usage.window);
    const used = usage.plan?.used;
    this.plan.hidden = used === undefined || used === null;
    if (used !== undefined && used !== null) {
      this.plan.textContent = `limit ${Math.round(used * 100)} %`;
      this.plan.className = `limit ${used >= 0.9 ? "lost" : used >= 0.75 ? "needs" : ""}`;
    }
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
