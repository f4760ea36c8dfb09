/**
 * What is allowed without asking: by whom, where, for how long, and taking it back.
 *
 * @module
 */

import { ask, at } from "./api.js";
import { fill, h } from "./elements.js";
import { openSheet } from "./sheets.js";
import { toast } from "./toast.js";
import { about, ago, base } from "./words.js";

/** @typedef {import("./gateway.js").Grant} Grant */

/**
 * Opens the list: of one session, or of all.
 *
 * @param {{ session?: string, drives: boolean, title: (session: string) => string | undefined }} page
 */
export function openGrants(page) {
  const place = h("div", {}, h("p", {}, "…"));
  const told = h("p", { class: "unseen", role: "status" });
  openSheet({ title: "Allowed without asking", body: [place, told] });

  const show = async () => {
    try {
      /** @type {{ grants: Grant[] }} */
      const { grants } = await ask("GET", page.session ? at(page.session, "/grants") : "/grants");
      fill(place, grants.length
        ? h("ul", { class: "plain-list" }, ...grants.sort((a, b) => b.created - a.created).map(row))
        : h("p", { class: "why" }, `Nothing. “Allow and remember” on a request puts it here, and it can be taken back at any time.`));
    } catch (problem) {
      fill(place, h("p", { class: "complaint" }, /** @type {Error} */ (problem).message));
    }
  };

  /** @param {Grant} grant */
  const row = (grant) => h("li", { "data-grant": grant.id },
    h("div", { class: "words" },
      h("div", {}, h("strong", {}, grant.tool), " ", grant.pattern ? h("code", {}, grant.pattern) : h("span", { class: "soft" }, "every call")),
      h("small", {}, scope(grant), " · ", end(grant)),
      h("small", {}, `Allowed by ${grant.by.name} (${grant.by.via}), ${ago(grant.created)}`)),
    page.drives && h("button", { type: "button", class: "button", "aria-label": `Take back ${grant.tool} ${grant.pattern ?? ""}`.trim(), onclick: () => void takeBack(grant) }, "Take back"));

  /** @param {Grant} grant */
  const takeBack = async (grant) => {
    try {
      await ask("DELETE", `/grants/${grant.id}`);
      told.textContent = "Taken back. It asks again from the next call on.";
    } catch (problem) {
      // Somebody else may have been faster, which the new list shows.
      toast(/** @type {Error} */ (problem).message);
    }
    await show();
    /** @type {HTMLElement | null} */ (place.querySelector("button") ?? place.closest("dialog")?.querySelector("button"))?.focus();
  };

  /** @param {Grant} grant */
  const scope = (grant) => {
    if (grant.session && grant.session === page.session) return "In this session";
    if (grant.session) return h("span", {}, "In ", h("a", { href: `#/s/${grant.session}`, onclick: () => document.querySelectorAll("dialog").forEach((it) => it.close()) }, page.title(grant.session) || "a session"));
    return grant.directory ? h("span", { title: grant.directory }, `In every session of ${base(grant.directory)}`) : "Everywhere";
  };

  void show();
}

/** @param {Grant} grant */
function end(grant) {
  return grant.until ? `until ${ago(grant.until)} (${about(grant.until - Date.now())} left)` : "until it is taken back";
}
