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
 * @param {() => void} _leave
 * @param {string} agent its name
 * @returns {import("./card.js").Card}
 */
export function questionCard(request, answer, _leave, agent) {
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
  const missing = h("p", { class: "missing", role: "status", hidden: true });

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
    if (questions[step] && !answerTo(step)) {
      // Only *Skip* refuses a question.
      missing.textContent = "Choose an answer or write your own, or skip the question.";
      missing.hidden = false;
      return;
    }
    goOn();
  };
  const goOn = () => {
    missing.hidden = true;
    if (step + 1 < questions.length) {
      step += 1;
      draw();
    } else finish();
  };
  const skip = () => {
    chosen[step]?.clear();
    other[step] = "";
    goOn();
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
    for (const it of /** @type {NodeListOf<HTMLElement>} */ (
      body.querySelectorAll("[data-choice]")
    ))
      it.setAttribute("aria-checked", String(chosen[step].has(it.dataset.choice ?? "")));
    body.querySelector(".own-answer")?.classList.toggle("chosen", Boolean(other[step].trim()));
    const answered = Boolean(answerTo(step));
    body.querySelector(".button.primary")?.setAttribute("aria-disabled", String(!answered));
    if (answered) missing.hidden = true;
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
      oninput: () => {
        other[step] = own.value;
        // A question with one answer has either a choice or words of the user's own.
        if (own.value.trim() && !question.multiSelect) chosen[step].clear();
        mark();
      },
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key === "Enter") next();
        else if (event.key === "Escape")
          /** @type {HTMLElement | null} */ (own.closest(".request"))?.focus();
        else return;
        event.preventDefault();
        event.stopPropagation();
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
        h("span", { class: "sign", "aria-hidden": "true" }),
        h("span", {}, option.label),
        h("kbd", { "aria-hidden": "true" }, n < 9 ? n + 1 : ""),
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
                title: answerTo(n) || undefined,
              },
              it.header || `${n + 1}`,
            ),
          ),
        ),
      h(
        "div",
        { class: "request-body" },
        h("p", {}, h("strong", {}, question.question)),
        question.multiSelect && h("p", { class: "help-text" }, "Choose any number of them."),
        h(
          "div",
          {
            class: question.multiSelect ? "choices several" : "choices",
            role: question.multiSelect ? "group" : "radiogroup",
            "aria-label": question.question,
          },
          ...options,
        ),
      ),
      h(
        "div",
        {
          class: question.multiSelect
            ? "request-reason own-answer several"
            : "request-reason own-answer",
        },
        h("span", { class: "sign", "aria-hidden": "true" }),
        own,
      ),
      missing,
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
                missing.hidden = true;
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
    title: questions.length > 1 ? `${agent} has questions` : `${agent} has a question`,
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
