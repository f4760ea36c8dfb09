// The views of `layout.mjs` that are about git and projects, each with little, ordinary and very much
// content.
import { closeLayers, settled } from "./layout-navigation.mjs";
import { diffHtml, session } from "./stub-api.mjs";

const ID = "11111111-1111-4111-8111-111111111111";
const WORD = "x".repeat(2000);
const SIZES = ["tiny", "typical", "huge"];
const COUNT = { tiny: 1, typical: 12, huge: 2000 };
const STATES = ["modified", "untracked", "deleted", "added", "conflicted", "type_changed"];
const text = (size, words) => (size === "huge" ? WORD : words);

const file = (size) => (n) => {
  const path = size === "huge" && n % 3 ? `${"src/deep/".repeat(n % 40)}${WORD.slice(0, n % 200)}-${n}.ts` : `src/cart-${n}.ts`;
  return { key: path, path, from: n % 7 === 3 ? "src/old.ts" : null, staged: n % 3 === 0 ? "modified" : null, unstaged: n % 3 ? STATES[n % STATES.length] : n % 2 ? "modified" : null, submodule: false };
};
const files = (size) => Array.from({ length: COUNT[size] }, (_, n) => file(size)(n));
const status = (size, more = {}) => ({
  top: `/home/me/${text(size, "shop")}`, branch: text(size, "main"), commit: "0123456789abcdef", upstream: "origin/main", ahead: size === "tiny" ? 0 : 3, behind: size === "huge" ? 12345 : 0,
  files: files(size), total: COUNT[size] + (size === "huge" ? 5000 : 0), worktree: size === "huge" ? { path: "/x", main: "/y", branch: WORD } : null, message: text(size, "Fix the total of the cart"), ...more,
});
const lines = { tiny: "one", typical: Array.from({ length: 8 }, (_, n) => `const value = compute(${n});`).join("\n"), huge: Array.from({ length: 400 }, (_, n) => (n % 50 ? `const value = compute(${n});` : WORD)).join("\n") };
const diff = (size, more = {}) => ({
  binary: false, added: false, deleted: false, old_mode: size === "huge" ? "100644" : null, new_mode: size === "huge" ? "100755" : null, lines_added: COUNT[size], lines_removed: COUNT[size],
  hunks: Array.from({ length: { tiny: 1, typical: 3, huge: 30 }[size] }, (_, n) => ({ id: `h${n}`, heading: text(size, "function total(cart) {"), old_start: n * 40 + 1, new_start: n * 40 + 1, added: 2, removed: 1, html: diffHtml(n ? lines.typical : lines[size]) })),
  hidden_hunks: size === "huge" ? 4000 : 0, cut: size === "huge", ...more,
});
const commit = (size) => (n) => ({ id: `abcdef${String(n).padStart(34, "0")}`, parents: [], author: text(size, "Ada"), at: Date.UTC(2026, 0, 30) - n * 3_600_000, names: n === 0 ? ["HEAD -> main", text(size, "tag: v1")] : [], subject: text(size, "Fix the total of the cart"), body: size === "tiny" ? "" : `${text(size, "It was rounded twice.")}\n`.repeat(6) });
const commits = (size) => Array.from({ length: Math.min(200, COUNT[size]) }, (_, n) => commit(size)(n));
const branches = (size) => ({ branches: Array.from({ length: COUNT[size] }, (_, n) => ({ name: n ? text(size, `topic/cart-${n}`) : "main", remote: n % 3 === 2, current: n === 0, upstream: null, at: 1, subject: text(size, "Fix the total"), checked_out: n % 5 === 0 })) });
const replies = (size) => ({
  "GET /git/status": status(size), "GET /git/diff": diff(size), "GET /git/log": { commits: commits(size), more: size !== "tiny" }, "GET /git/branches": branches(size),
  [`GET /git/commits/${commit(size)(0).id}`]: { commit: commit(size)(0), files: files(size).map((it) => ({ key: it.key, path: it.path, from: it.from, state: it.staged ?? it.unstaged ?? "modified" })), total: COUNT[size] },
});

const visit = (rest, selector) => async (page) => {
  await page.evaluate(([id, rest]) => (location.hash = `#/s/${id}/git${rest}`), [ID, rest]);
  await page.waitForSelector(selector, { state: "attached" });
};
const leave = async (page) => {
  await settled(page);
  await page.evaluate((id) => (location.hash = `#/s/${id}`), ID);
  await page.waitForFunction(() => !document.querySelector(".page.viewing"));
};
const view = (name, rest, selector, replies, then = () => undefined) => ({ name: `git: ${name}`, replies, open: async (page) => { await visit(rest, selector)(page); await then(page); }, close: leave });
const problem = (kind, detail) => ({ status: 409, type: `about:towpath#${kind}`, title: "no", detail });

export function gitViews({ dialog, press, menuItem, appears, drawer }) {
  const parts = SIZES.flatMap((size) => [
    view(`changes, ${size}`, "", ".git-file", replies(size)),
    view(`diff, ${size}`, `/unstaged/${encodeURIComponent(files(size).find((it) => it.unstaged)?.key ?? files(size)[0].key)}`, ".git-hunk", replies(size)),
    view(`staged diff, ${size}`, `/staged/${encodeURIComponent(files(size)[0].key)}`, ".git-hunk", replies(size)),
    view(`history, ${size}`, "/log", ".git-commit", replies(size)),
    view(`commit, ${size}`, `/log/${commit(size)(0).id}`, ".git-commit-files a", replies(size)),
    view(`file of a commit, ${size}`, `/log/${commit(size)(0).id}/${encodeURIComponent(files(size)[0].key)}`, ".git-hunk", replies(size)),
    {
      ...dialog(`git: branches, ${size}`, async (page) => { await visit("", ".git-file")(page); await press(".git-branch")(page); }, { replies: replies(size), then: appears(".git-branches button") }),
      close: async (page) => { await closeLayers(page); await leave(page); },
    },
  ]);
  const states = [
    view("nothing changed", "", ".git-none", { "GET /git/status": status("tiny", { files: [], total: 0 }) }),
    view("no repository", "", ".git.alone", { "GET /git/status": problem("no-repository", "this directory is in no git repository; `git init` makes one") }),
    view("refused by git", "", ".git.alone", { "GET /git/status": problem("git-refused", `fatal: detected dubious ownership in repository at '/home/${WORD}'\nTo add an exception for this directory, call:\n\n\tgit config --global --add safe.directory /home`) }),
    view("binary file", "/unstaged/src%2Fcart-0.ts", ".git-note", { "GET /git/status": status("tiny"), "GET /git/diff": diff("tiny", { hunks: [], binary: true, added: true }) }),
    view("words of a hook", "", ".git-file", { ...replies("typical"), "POST /git/stage": problem("git-refused", `${"the linter says no\n".repeat(200)}${WORD}`) }, async (page) => {
      await page.evaluate(() => document.querySelector("[data-side=unstaged] input").click());
      await page.waitForSelector(".git-words:not([hidden])");
    }),
  ];
  const newSession = press(".sidebar [aria-label='New session']");
  const worktrees = SIZES.map((size) =>
    dialog(`new session in a working tree, ${size}`, newSession, {
      sessions: () => Array.from({ length: { tiny: 1, typical: 4, huge: 30 }[size] }, (_, n) => session({ id: n ? `22222222-2222-4222-8222-${String(n).padStart(12, "0")}` : ID, cwd: `/home/me/${text(size, "shop")}-${n}` })),
      replies: { "GET /repository": { branch: text(size, "main"), worktrees: `/home/me/${text(size, "shop")}-worktrees` } },
      then: async (page) => { await appears(".option-row .option")(page); await appears(".worktree-chip:not([hidden])")(page); await page.evaluate(() => document.querySelector(".worktree-chip input").click()); },
    }));
  const deletions = SIZES.map((size) =>
    dialog(`delete with a working tree, ${size}`, menuItem("Delete"), { replies: { "GET /worktree": { worktree: { path: `/home/me/${text(size, "shop")}-worktrees/fix`, branch: `towpath/${text(size, "fix")}`, files: size === "tiny" ? 0 : 3, commits: size === "huge" ? 4000 : 0 } } }, then: appears(".radio-field") }));
  const many = (size) => () =>
    Array.from({ length: { tiny: 2, typical: 12, huge: 200 }[size] }, (_, n) =>
      session({ id: n ? `33333333-3333-4333-8333-${String(n).padStart(12, "0")}` : ID, title: text(size, `Fix the cart ${n}`), cwd: `/home/me/${text(size, "project")}-${n % 5}`, pinned: n === 1, tier: n % 4 ? "idle" : "running", active: Date.now() - n * 60_000 }));
  const directories = (size) => ({ directories: Array.from({ length: 5 }, (_, n) => ({ cwd: `/home/me/${text(size, "project")}-${n}`, project: `/home/me/p${n % 3}`, name: text(size, `project ${n % 3}`), repository: true, branch: text(size, "main"), changes: size === "tiny" ? 0 : 4000, worktree: n > 2 })) });
  const projects = SIZES.map((size) => ({
    name: `projects in the list, ${size}`, fresh: true, sessions: many(size), ...drawer,
    replies: { "GET /projects": directories(size), "GET /usage": { days: many(size)().map((it) => ({ session: it.id, cost: 123.456 })) } },
    open: async (page) => { await page.waitForSelector(".project-branch", { state: "attached" }); await drawer.open(page); },
  }));
  return [...parts, ...states, ...worktrees, ...deletions, ...projects];
}
