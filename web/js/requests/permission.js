/**
 * The card of a permission request. It shows everything the server discloses in full, and offers the
 * rules that the server lists. *Allow* is disabled until all of it could be seen.
 *
 * @module
 */

import { callBody, cancelButton, keyButton, keyHandler, reasonForm } from "./card.js";
import { choiceButtons } from "./choices.js";
import { h } from "../ui/elements.js";
import { Visibility } from "../ui/visibility.js";

/** @typedef {import("./card.js").Request} Request */

const ACTIONS = /** @type {Record<string, string>} */ ({
  run: "run",
  write: "write",
  edit: "edit",
  read: "read",
  fetch: "fetch",
  search_web: "search the web for",
  search: "search",
});

/** Longer descriptions may not fit in the title. */
const MAX_TITLE = 60;

/** How long a rule can apply, in seconds. */
const DURATIONS = [
  ["", ""],
  ["1800", "for 30 minutes"],
  ["28800", "for 8 hours"],
];

/**
 * @param {Request} request
 * @param {import("./card.js").SendAnswer} answer
 * @param {() => void} leave
 * @param {string} agent its name
 * @returns {import("./card.js").Card}
 */
export function permissionCard(request, answer, leave, agent) {
  if (request.choices.length) return cardWithChoices(request, answer, leave, agent);
  const always = request.rules.length > 0 ? ruleForm(request, answer) : undefined;
  const reason = reasonForm({
    placeholder: `What should ${agent} do instead?`,
    label: "Reason",
    button: "Deny with reason",
    send: (message) => void answer({ decision: "deny", message: message || undefined }),
  });

  const details = h(
    "div",
    { class: "request-body", tabindex: "0", role: "region", "aria-label": "Details" },
    ...disclosures(request),
  );
  const visibility = new Visibility(details);
  const allow = () => {
    if (visibility.complete) void answer({ decision: "allow" });
    else visibility.showAll();
  };
  const remember = () => {
    if (!always) return;
    if (!visibility.complete) visibility.showAll();
    else if (always.form.hidden) always.form.hidden = false;
    else always.submit();
  };
  const deny = () => void answer({ decision: "deny" });
  // The server offers this rule only for edits below the session's directory.
  const project = request.rules.find((rule) => rule.id === "directory");
  const allowEdits = () => {
    if (!project) return;
    if (!visibility.complete) visibility.showAll();
    else void answer({ decision: "allow", remember: { rule: project.id, scope: "directory" } });
  };

  const allowButton = keyButton("Allow once", "y", "primary", allow);
  const editsButton =
    project && keyButton("Allow all edits in this project", "e", "all-edits", allowEdits);
  if (editsButton && project) editsButton.title = `${project.label}, until it is revoked`;
  const alwaysButton = always && keyButton("Always allow…", "a", "always", remember);
  visibility.changed = () => {
    for (const button of [allowButton, editsButton, alwaysButton]) {
      if (button) button.disabled = !visibility.complete;
    }
  };
  visibility.changed();

  const body = h(
    "div",
    { class: "request-inner" },
    details,
    visibility.button,
    h(
      "div",
      { class: "request-actions" },
      allowButton,
      editsButton,
      alwaysButton,
      h(
        "span",
        { class: "denials" },
        keyButton("Deny", "n", "danger", deny),
        keyButton("Deny with reason", "d", "quiet", reason.open),
      ),
    ),
    always?.form,
    reason.form,
  );
  const key = keyHandler({
    y: allow,
    a: remember,
    ...(project && { e: allowEdits }),
    n: deny,
    d: reason.open,
    Escape: leave,
  });
  return { title: title(request, agent), body, key };
}

/**
 * A card with the agent's own choices. Those that allow the call are disabled until all of it could be
 * seen, as *Allow* is.
 *
 * @param {Request} request
 * @param {import("./card.js").SendAnswer} answer
 * @param {() => void} leave
 * @param {string} agent
 * @returns {import("./card.js").Card}
 */
function cardWithChoices(request, answer, leave, agent) {
  const details = h(
    "div",
    { class: "request-body", tabindex: "0", role: "region", "aria-label": "Details" },
    ...disclosures(request),
  );
  const visibility = new Visibility(details);
  const { elements, allowing, keys } = choiceButtons(request.choices, {
    choose: (choice) => void answer({ choice: choice.id }),
    deny: () => void answer({ decision: "deny" }),
    mayAllow: () => visibility.complete,
    showAll: () => visibility.showAll(),
  });
  visibility.changed = () => {
    for (const button of allowing) button.disabled = !visibility.complete;
  };
  visibility.changed();
  const body = h("div", { class: "request-inner" }, details, visibility.button, ...elements);
  return { title: title(request, agent), body, key: keyHandler({ ...keys, Escape: leave }) };
}

/** @param {Request} request @param {string} agent */
function title(request, agent) {
  if (request.action === "run") return request.description || `${agent} wants to run a command`;
  const action = ACTIONS[request.action];
  const target = request.target.split("/").pop();
  return action && target
    ? `${agent} wants to ${action} ${target}`
    : request.description || `${agent} wants to use ${request.tool || "an unknown tool"}`;
}

/** @param {Request} request */
function disclosures(request) {
  /** @type {import("../ui/elements.js").Child[]} */
  const parts = request.disclosures.map(({ label, text }) =>
    h(
      "div",
      { class: "disclosure" },
      h("h3", {}, label),
      h("pre", { class: label === "Command" ? "given command" : "given" }, text),
    ),
  );
  // A diff says more than the input. A command is already disclosed.
  if (request.html && request.action !== "run") {
    parts.push(h("div", { class: "item" }, callBody(request.html)));
  }
  // The title of a card has two lines at most.
  if (request.description && request.description.length > MAX_TITLE)
    parts.push(h("p", { class: "help-text" }, request.description));
  const path = request.blocked_path ? `It asks because of ${request.blocked_path}` : "";
  const reason = request.reason ?? path;
  if (reason) parts.push(h("p", { class: "help-text" }, reason));
  return parts;
}

/**
 * The rules that *Always* offers, their scope and their duration.
 *
 * @param {Request} request
 * @param {import("./card.js").SendAnswer} answer
 */
function ruleForm(request, answer) {
  const name = `rule-${request.id}`;
  const rules = request.rules.map((rule, n) => {
    const radio = h("input", { type: "radio", name, value: rule.id, checked: n === 0 });
    return h("label", { class: "request-rule" }, radio, rule.label);
  });
  const scope = h(
    "select",
    { "aria-label": "Where" },
    h("option", { value: "session" }, "in this session"),
    h("option", { value: "directory" }, "in this directory"),
  );
  const duration = h(
    "select",
    { "aria-label": "For how long" },
    ...DURATIONS.map(([value, label]) => h("option", { value }, label)),
  );
  // Without a limit a grant ends with its session, or when it is revoked.
  const unlimited = /** @type {HTMLOptionElement} */ (duration.options[0]);
  const describeUnlimited = () => {
    const ends = scope.value === "session" ? "until this session ends" : "until it is revoked";
    unlimited.textContent = ends;
  };
  scope.addEventListener("change", describeUnlimited);
  describeUnlimited();
  const submit = () => {
    const chosen = request.rules.find((rule) =>
      form.querySelector(`input[value="${rule.id}"]:checked`),
    );
    if (!chosen) return;
    const until = duration.value ? Date.now() + Number(duration.value) * 1000 : undefined;
    const where = /** @type {import("../gateway.js").GrantScope} */ (scope.value);
    void answer({ decision: "allow", remember: { rule: chosen.id, scope: where, until } });
  };
  const form = h(
    "form",
    {
      class: "request-rules",
      hidden: true,
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        submit();
      },
    },
    h("fieldset", {}, h("legend", {}, "Always allow"), ...rules),
    h(
      "div",
      { class: "request-rule-limits" },
      scope,
      duration,
      h("button", { type: "submit", class: "button primary" }, "Always allow"),
      cancelButton(),
    ),
  );
  return { form, submit };
}
