/**
 * The status line: what the agent does, under which mode and model, what it has used; and whether
 * any of that is still true.
 *
 * @module
 */

import { drawn, fill, h } from "./elements.js";
import { count, doing, dollars, modeName, modelName, span } from "./words.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */
/** @typedef {import("./follower.js").Line} Line */

export class StatusLine {
  /** @param {{ chooseMode: (anchor: HTMLElement) => void, chooseModel: (anchor: HTMLElement) => void }} desk */
  constructor(desk) {
    this.dot = h("span", { class: "lamp" });
    this.words = h("span", {});
    this.doing = h("span", { class: "doing" }, this.dot, this.words);
    this.mode = h("button", { type: "button", class: "chip-button", "aria-haspopup": "menu", title: "Permission mode (Shift+Tab)", onclick: () => desk.chooseMode(this.mode) });
    this.model = h("button", { type: "button", class: "chip-button", "aria-haspopup": "menu", title: "Model and effort", onclick: () => desk.chooseModel(this.model) });
    this.context = h("span", { class: "gauge", hidden: true });
    this.cost = h("span", { hidden: true });
    this.plan = h("span", { hidden: true });
    this.element = h("div", { class: "status", role: "group", "aria-label": "Status" }, this.doing, this.mode, this.model, this.context, this.plan, this.cost);
  }

  /** @param {Conversation} conversation @param {import("./gateway.js").Session | undefined} session */
  show({ head, usage }, session) {
    const mode = head.mode ?? session?.mode ?? "";
    this.mode.textContent = modeName(mode);
    this.mode.className = `chip-button ${mode}`;
    this.model.textContent = [modelName(head.model ?? session?.model ?? ""), head.effort ?? session?.effort].filter(Boolean).join(" · ");
    this.cost.hidden = usage.cost === undefined || usage.cost === null;
    if (usage.cost) this.cost.textContent = dollars(usage.cost);
    this.#gauge(usage.context, usage.window);
    const used = usage.plan?.used;
    this.plan.hidden = used === undefined || used === null;
    if (used !== undefined && used !== null) {
      this.plan.textContent = `plan ${Math.round(used * 100)} %`;
      this.plan.className = used >= 0.9 ? "lost" : used >= 0.75 ? "needs" : "";
    }
  }

  /** @param {Conversation | undefined} conversation @param {Line} line @param {number} now */
  tick(conversation, line, now) {
    if (line.is === "lost" && now - line.since > 300) {
      this.#say("lost", `Not connected${line.heard ? `, as of ${new Date(line.heard).toLocaleTimeString()}` : ""}`, "lost");
      return;
    }
    if (!conversation) {
      this.#say("idle", "Connecting", "");
      return;
    }
    const { status } = conversation;
    const { is } = status.phase;
    const time = conversation.busy && status.turn_since ? ` · ${span(Math.max(0, now - status.turn_since))}` : "";
    const dot = is === "waiting" ? "needs" : is === "gone" && !["parked", "closed"].includes(status.phase.why?.cause ?? "") ? "failed" : conversation.busy ? "running" : "live";
    this.#say(dot, doing(status, now) + time, is === "waiting" ? "needs" : "");
  }

  /** @param {string} dot @param {string} words @param {string} look */
  #say(dot, words, look) {
    this.dot.className = `lamp ${dot}`;
    this.words.className = look;
    if (this.words.textContent !== words) this.words.textContent = words;
    this.words.title = words;
  }

  /** @param {number | undefined} context @param {number | undefined} window */
  #gauge(context, window) {
    this.context.hidden = !context;
    if (!context) return;
    const part = window ? Math.min(1, context / window) : 0;
    const words = window ? `${Math.round(part * 100)} %` : count(context);
    this.context.className = `gauge ${part >= 0.9 ? "full" : part >= 0.75 ? "high" : ""}`;
    this.context.title = `${count(context)} tokens of context${window ? ` of ${count(window)}` : ""}`;
    const round = 2 * Math.PI * 8;
    const circle = (/** @type {string} */ name, /** @type {number} */ share) => drawn("circle", { class: name, cx: 10, cy: 10, r: 8, "stroke-dasharray": `${round * share} ${round}` });
    fill(this.context, window ? drawn("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, circle("", 1), circle("part-full", part)) : null, h("span", {}, words), h("span", { class: "unseen" }, " of the context"));
  }
}
