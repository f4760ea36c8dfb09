// The views of `layout.mjs` that are about options: the form of a new session, the settings of a session,
// the agent, and what is done with changed files. Each with little, ordinary and very much content.
import { session } from "./stub-api.mjs";
import { agentReply, asDriver, optionsReply, profiles, project, values, watchLog } from "./stub-options.mjs";

const WORD = "x".repeat(2000);
const FILE = '[profiles.fast]\nmodel = "haiku"\nmax_turns = 10\n';
/** What someone writes who wants a file to be trusted unread. */
const ATTACK = `# harmless\n${"\n".repeat(10_000)}[profiles.x]\nmcp_config = "\u202e/tmp/evil\u202c"${" ".repeat(5000)}# \u001b[2K\u200b\n${WORD}\n${'environment = { A = "b" }\n'.repeat(800)}`;
const SIZES = ["tiny", "typical", "huge"];
const COUNT = { tiny: 0, typical: 3, huge: 60 };

const openMore = (page) => page.evaluate(() => document.querySelectorAll(".more-options, .watch-history, .agent-info details").forEach((it) => (it.open = true)));
/** Enters values into the fields as the page itself does. */
const addEntries = (text, count) => (page) =>
  page.evaluate(
    ([text, count]) => {
      for (const input of document.querySelectorAll(".add-entry input")) {
        const data = new DataTransfer();
        data.setData("text", Array.from({ length: count }, (_, n) => `${text}-${n}`).join("\n"));
        input.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, cancelable: true }));
      }
      for (let n = 0; n < Math.min(count, 30); n += 1) [...document.querySelectorAll("[data-kind=variables] button")].at(-1)?.click();
      for (const area of document.querySelectorAll(".option textarea")) {
        area.value = `${text}\n`.repeat(count);
        area.dispatchEvent(new Event("input", { bubbles: true }));
      }
    },
    [text, count],
  );
/** Every field shows an error. */
const showErrors = (text) => (page) => page.evaluate((text) => document.querySelectorAll(".option .form-error").forEach((it) => (it.textContent = text)), text);

/** The views, made with the functions of `layout-views.mjs`. */
export function optionViews({ dialog, press, menuItem, appears }) {
  const newSession = press(".sidebar [aria-label='New session']");
  const fields = appears(".option-row .option");
  const forms = SIZES.flatMap((size) => {
    const huge = size === "huge";
    const options = optionsReply({ profiles: profiles(COUNT[size], huge ? WORD : "careful", huge ? WORD : undefined) });
    const then = async (page) => {
      await fields(page);
      await openMore(page);
      if (size !== "tiny") await addEntries(huge ? WORD : "Bash(git:*)", huge ? 100 : 3)(page);
      if (huge) await showErrors(WORD)(page);
    };
    return [
      dialog(`new session, folded, ${size}`, newSession, { replies: { "GET /options": options }, then: fields }),
      dialog(`new session, all options, ${size}`, newSession, { replies: { "GET /options": options }, then }),
    ];
  });
  const restricted = asDriver(optionsReply({ bypass_allowed: false, project: project(FILE) }));
  const files = Object.entries({ tiny: "", typical: FILE, huge: ATTACK }).flatMap(([size, text]) => [
    dialog(`new session with a project's file, ${size}`, newSession, { replies: { "GET /options": optionsReply({ project: project(text) }) }, then: appears(".project-text") }),
    dialog(`new session with a trusted file, ${size}`, newSession, {
      replies: { "GET /options": optionsReply({ project: project(text, true), profiles: profiles(1) }) },
      then: async (page) => { await appears(".project-file")(page); await page.evaluate(() => (document.querySelector(".project-file details").open = true)); },
    }),
  ]);
  const settings = SIZES.flatMap((size) => {
    const huge = size === "huge";
    const target = huge ? `/home/me/${WORD}` : "/srv/backup";
    const config = { commit: { every: "turn", branch: huge ? WORD : "towpath/{session}" }, targets: [{ kind: "directory", path: target }], hooks: { pre: "check" } };
    const log = watchLog({ tiny: 0, typical: 8, huge: 500 }[size], huge ? WORD : undefined);
    const replies = {
      "GET ": { ...session(), options: values(size, WORD), restart_pending: huge },
      "GET /options": optionsReply({ profiles: profiles(COUNT[size], huge ? WORD : "careful") }),
      "GET /watch": { default: size === "tiny" ? null : config, config: size === "tiny" ? null : config, inherited: false, log, last: 4, processed: 4 },
    };
    const then = async (page) => { await appears(".watch-section")(page); await openMore(page); };
    return [
      dialog(`session settings, ${size}`, menuItem("Session settings"), { replies, then }),
      dialog(`session settings with changes, ${size}`, menuItem("Session settings"), {
        replies,
        then: async (page) => { await then(page); await page.evaluate(() => { document.querySelector(".apply-profile .button")?.click(); document.querySelector(".option input[role=switch]").click(); }); if (huge) await showErrors(WORD)(page); },
      }),
    ];
  });
  const agents = Object.entries({ tiny: agentReply(1), typical: agentReply(), huge: agentReply(10_000, WORD.slice(0, 300)) }).flatMap(([size, reply]) => [
    dialog(`about the agent, ${size}`, menuItem("About the agent"), { replies: { "GET /agent": reply }, then: async (page) => { await appears(".facts")(page); await openMore(page); } }),
    dialog(`about the agent, all shown, ${size}`, menuItem("About the agent"), {
      replies: { "GET /agent": reply },
      then: async (page) => { await appears(".facts")(page); await openMore(page); await page.evaluate(() => document.querySelectorAll(".agent-info .button").forEach((it) => it.click())); },
    }),
  ]);
  return [
    ...forms,
    dialog("new session of a driver", newSession, { replies: { "GET /options": restricted }, role: "drive", fresh: true, then: async (page) => { await fields(page); await openMore(page); } }),
    ...files,
    ...settings,
    dialog("session settings of a watcher", menuItem("Session settings"), { role: "watch", fresh: true, replies: { "GET ": { ...session(), options: values("typical", WORD) }, "GET /options": asDriver(optionsReply()) }, then: appears(".watch-section") }),
    dialog("allow everything?", async (page) => page.evaluate(() => void import("/js/dialogs/bypass.js").then((it) => it.confirmBypass())), { fresh: true }),
    ...agents,
    dialog("about an agent that said nothing yet", menuItem("About the agent"), { replies: { "GET /agent": { ...agentReply(0), version: null, model: null } }, then: appears(".help-text") }),
  ];
}
