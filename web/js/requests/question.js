/**
 * The card of questions, one step each: keys 1 to 9 choose, 0 is for the user's own answer, Enter
 * continues, Esc skips.
 *
 * @module
 */

import { callInput } from "./card.js";
import { fill, h } from "../ui/elements.js";

/**
 * A question of the `AskUserQuestion` tool.
 *
 * @typedef {{ question: string, header?: string, multiSelect?: boolean, options: { label: string, description?: string }[] }} Question
 */

/**
 * @param {import("./card.js").Request} request
 * @param {import("./card.js").SendAnswer} answer
 * @returns {import("./card.js").Card}
 */
export function questionCard(request, answer) {
  const { questions: raw } = callInput(request);
  /** @type {Question[]} */
  const questions = Array.isArray(raw)
    ? raw.filter((it) => it && typeof it.question === "string")
    : [];
  /** The chosen options of each question. @type {Set<string>[]} */
  const chosen = questions.map(() => new Set());
  const other = questions.map(() => "");
  let step = 0;
  const body = h("div", { class: "request-inner" });

  const answerTo = (/** @type {number} */ n) =>
    [...chosen[n], ...(other[n].trim() ? [other[n].trim()] : [])].join(", ");
  const finish = () => {
    /** @type {Record<string, string>} */ const answers = {};
    questions.forEach((question, n) => {
      if (answerTo(n)) answers[question.question] = answerTo(n);
    });
    void (Object.keys(answers).length
      ? answer({ decision: "allow", answers })
      : answer({ decision: "deny" }));
  };
  const next = () => {
    if (step + 1 < questions.length) {
      step += 1;
      draw();
    } else finish();
  };
  const skip = () => {
    chosen[step]?.clear();
    other[step] = "";
    next();
  };
  const choose = (/** @type {number} */ n) => {
    const question = questions[step];
    const option = question?.options?.[n];
    if (!option) return false;
    const set = chosen[step];
    if (question.multiSelect) {
      if (set.has(option.label)) set.delete(option.label);
      else set.add(option.label);
      mark();
    } else {
      set.clear();
      other[step] = "";
      set.add(option.label);
      next();
    }
    return true;
  };
  const mark = () => {
    body
      .querySelectorAll("[data-choice]")
      .forEach((it) =>
        it.setAttribute(
          "aria-checked",
          String(chosen[step].has(/** @type {HTMLElement} */ (it).dataset.choice ?? "")),
        ),
      );
  };
  const draw = () => {
    const question = questions[step];
    if (!question) {
      fill(
        body,
        h("p", {}, "This question cannot be shown."),
        h(
          "div",
          { class: "request-actions" },
          h("button", { type: "button", class: "button", onclick: finish }, "Skip"),
        ),
      );
      return;
    }
    const own = h("input", {
      type: "text",
      class: "input",
      placeholder: "Your own answer",
      "aria-label": "Your own answer",
      value: other[step],
      oninput: () => (other[step] = own.value),
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key === "Enter" && own.value.trim()) {
          event.preventDefault();
          if (!question.multiSelect) chosen[step].clear();
          next();
        }
      },
    });
    const options = (question.options ?? []).map((option, n) =>
      h(
        "button",
        {
          type: "button",
          class: "choice",
          role: question.multiSelect ? "checkbox" : "radio",
          "aria-checked": "false",
          "data-choice": option.label,
          onclick: () => choose(n),
        },
        h("kbd", { "aria-hidden": "true" }, n < 9 ? n + 1 : "·"),
        h("span", {}, option.label),
        option.description && h("small", {}, option.description),
      ),
    );
    const last = step + 1 === questions.length;
    fill(
      body,
      questions.length > 1 &&
        h(
          "ol",
          { class: "steps" },
          ...questions.map((it, n) =>
            h(
              "li",
              {
                "aria-current": n === step ? "step" : undefined,
                class: answerTo(n) ? "answered" : undefined,
              },
              it.header || `${n + 1}`,
            ),
          ),
        ),
      h(
        "div",
        { class: "request-body" },
        h("p", {}, h("strong", {}, question.question)),
        h(
          "div",
          {
            class: "choices",
            role: question.multiSelect ? "group" : "radiogroup",
            "aria-label": question.question,
          },
          ...options,
        ),
      ),
      h("div", { class: "request-reason" }, own),
      h(
        "div",
        { class: "request-actions" },
        step > 0 &&
          h(
            "button",
            {
              type: "button",
              class: "button quiet",
              onclick: () => {
                step -= 1;
                draw();
              },
            },
            "Back",
          ),
        h("span", { class: "spacer" }),
        h(
          "button",
          { type: "button", class: "button quiet", onclick: skip },
          "Skip",
          h("kbd", { "aria-hidden": "true" }, "Esc"),
        ),
        h(
          "button",
          { type: "button", class: "button primary", onclick: next },
          last ? "Answer" : "Next",
          h("kbd", { "aria-hidden": "true" }, "Enter"),
        ),
      ),
    );
    mark();
    if (body.isConnected)
      /** @type {HTMLElement | null} */ (body.closest(".request"))?.focus({ preventScroll: true });
  };
  draw();
  return {
    title: questions.length > 1 ? "Claude has questions" : "Claude has a question",
    body,
    key: (event) => {
      if (/^[1-9]$/.test(event.key)) return choose(Number(event.key) - 1);
      if (event.key === "0") body.querySelector("input")?.focus();
      else if (event.key === "Enter") next();
      else if (event.key === "Escape") skip();
      else return false;
      return true;
    },
  };
}
