/**
 * Grants: what is always allowed, by whom, where and for how long, and revoking it.
 *
 * @module
 */

import { callApi, sessionPath } from "../api.js";
import { fill, h } from "../ui/elements.js";
import { openDialog } from "./dialogs.js";
import { toast } from "../ui/toast.js";
import { roughDuration, dateTime, baseName } from "../ui/format.js";

/** @typedef {import("../gateway.js").Grant} Grant */

/**
 * Lists the grants of one session, or of all.
 *
 * @param {{ session?: string, canRevoke: boolean, title: (session: string) => string | undefined }} page
 */
export function openGrants(page) {
  const place = h("div", {}, h("p", {}, "…"));
  const status = h("p", { class: "visually-hidden", role: "status" });
  openDialog({
    title: "Always allowed",
    address: page.session ? "grants" : "all-grants",
    body: [place, status],
  });

  const show = async () => {
    try {
      /** @type {{ grants: Grant[] }} */
      const { grants } = await callApi(
        "GET",
        page.session ? sessionPath(page.session, "/grants") : "/grants",
      );
      fill(
        place,
        grants.length
          ? h(
              "ul",
              { class: "plain-list" },
              ...grants.sort((a, b) => b.created - a.created).map(row),
            )
          : h(
              "p",
              { class: "help-text" },
              "Nothing yet. “Always allow” on a request adds a rule here, which can be revoked at any time.",
            ),
      );
    } catch (problem) {
      fill(place, h("p", { class: "form-error" }, /** @type {Error} */ (problem).message));
    }
  };

  /** @param {Grant} grant */
  const row = (grant) =>
    h(
      "li",
      { "data-grant": grant.id },
      h(
        "div",
        { class: "words" },
        h(
          "div",
          {},
          h("strong", {}, grant.label),
          grant.pattern ? " " : "",
          grant.pattern ? h("code", {}, grant.pattern) : "",
        ),
        h("small", {}, scope(grant), " · ", end(grant)),
        h("small", {}, `Allowed by ${grant.by.name} (${grant.by.via}), ${dateTime(grant.created)}`),
      ),
      page.canRevoke &&
        h(
          "button",
          {
            type: "button",
            class: "button",
            "aria-label": `Revoke ${grant.label} ${grant.pattern ?? ""}`.trim(),
            onclick: () => void revoke(grant),
          },
          "Revoke",
        ),
    );

  /** @param {Grant} grant */
  const revoke = async (grant) => {
    try {
      await callApi("DELETE", `/grants/${grant.id}`);
      status.textContent = "Revoked. The agent asks again for the next call.";
    } catch (problem) {
      // Another client may have revoked it already, which the new list shows.
      toast(/** @type {Error} */ (problem).message);
    }
    await show();
    /** @type {HTMLElement | null} */ (
      place.querySelector("button") ?? place.closest("dialog")?.querySelector("button")
    )?.focus();
  };

  /** @param {Grant} grant */
  const scope = (grant) => {
    if (grant.session && grant.session === page.session) return "In this session";
    if (grant.session)
      return h(
        "span",
        {},
        "In ",
        h(
          "a",
          {
            href: `#/s/${grant.session}`,
            onclick: () => document.querySelectorAll("dialog").forEach((it) => it.close()),
          },
          page.title(grant.session) || "a session",
        ),
      );
    return grant.directory
      ? h("span", { title: grant.directory }, `In every session of ${baseName(grant.directory)}`)
      : "Everywhere";
  };

  void show();
}

/** @param {Grant} grant */
function end(grant) {
  return grant.until
    ? `until ${dateTime(grant.until)} (${roughDuration(grant.until - Date.now())} left)`
    : "until it is revoked";
}
