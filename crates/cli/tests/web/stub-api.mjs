// The gateway's API as a stub inside the browser, so that a script can show any content on the page
// without an agent. The page itself, its style sheets and its policy come from the real server.
import { assert, Screen, Server } from "./fixture.mjs";
import { agentFilesReply, agentReply, agentsReply, optionsReply } from "./stub-options.mjs";

const SESSION = "11111111-1111-4111-8111-111111111111";
const NOW = Date.UTC(2026, 0, 31, 12);

/** The agent of sessions for which none was chosen, and one that lists its own modes. */
export const CLAUDE = { name: "claude", title: "Claude Code", color: "#d97757", acp: false };
export const CODEX = { name: "codex", title: "Codex", color: "#10a37f", acp: true };

export const MODES = [
  { id: "default", label: "Ask", description: "Asks before it changes files or runs commands", shortcut: true },
  { id: "acceptEdits", label: "Accept edits", description: "Changes files without asking, asks before it runs commands", shortcut: true },
  { id: "plan", label: "Plan", description: "Reads and plans, changes nothing", shortcut: true },
  { id: "bypassPermissions", label: "Allow everything", description: "Never asks", shortcut: false },
];

/** The reply of a server that cannot be reached. */
export const OFFLINE = Symbol("offline");

/** A page in a context of its own, whose API is a stub. */
export class StubbedPage {
  static async open(browser, server, kind, init = () => undefined, watch = () => undefined) {
    const stubbed = new StubbedPage();
    /** What the page asked for, without what it only reads at the start. */
    stubbed.calls = [];
    stubbed.me = { name: "link", role: "admin", shell: true, via: "browser", demo: false, fleet: false, modes: MODES, roots: ["/home/me"], version: "0.1.0", push: { key: "BA" } };
    stubbed.sessions = [session()];
    stubbed.replies = {};
    stubbed.sockets = new Set();
    stubbed.snapshot = snapshot();
    stubbed.number = 0;
    stubbed.context = await browser.newContext({ ...kind, reducedMotion: "reduce", serviceWorkers: "block" });
    await stubbed.context.route("**/api/v1/**", (route) => stubbed.#reply(route));
    await stubbed.context.routeWebSocket(/\/api\/v1\//, (socket) => stubbed.#connect(socket));
    await stubbed.context.addInitScript(init);
    stubbed.page = await stubbed.context.newPage();
    watch(stubbed.page);
    stubbed.address = `${server.address}/#/s/${SESSION}`;
    await stubbed.page.goto(stubbed.address);
    await stubbed.page.waitForSelector(".composer", { state: "attached" });
    return stubbed;
  }

  async #reply(route) {
    const request = route.request();
    const path = new URL(request.url()).pathname.replace("/api/v1", "").replace(`/sessions/${SESSION}`, "");
    const known = this.replies[`${request.method()} ${path}`] ?? REPLIES[`${request.method()} ${path}`];
    if (path !== "/me") this.calls.push({ method: request.method(), path, body: request.headers()["content-type"] === "application/json" ? request.postDataJSON() : null });
    const reply = path === "/me" ? this.me : typeof known === "function" ? await known(request) : known;
    if (reply === undefined) return route.fulfill({ status: 204, body: "" });
    if (reply === OFFLINE) return route.abort();
    if (reply.raw) return route.fulfill({ status: 200, contentType: reply.type, body: reply.raw });
    if (reply.tag && reply.body) {
      const known = request.headers()["if-none-match"] === reply.tag;
      return route.fulfill({ status: known ? 304 : 200, headers: { etag: reply.tag }, contentType: "application/json", body: known ? "" : JSON.stringify(reply.body) });
    }
    if (typeof reply.status === "number") return route.fulfill({ status: reply.status, contentType: "application/problem+json", body: JSON.stringify(reply) });
    return route.fulfill({ status: 200, contentType: "application/json", body: JSON.stringify(reply) });
  }

  #connect(socket) {
    if (socket.url().includes("/terminals/")) return this.#connectTerminal(socket);
    const list = !socket.url().includes("/sessions/");
    this.sockets.add({ socket, list });
    socket.send(JSON.stringify(list ? this.#list() : this.#frame()));
  }

  /** A terminal sends the frames of the view, and the scrollback that is asked for. */
  #connectTerminal(socket) {
    const { frames, scrollback } = this.terminal ?? { frames: [] };
    socket.onMessage((message) => {
      const { frame, from, count } = JSON.parse(message);
      if (frame === "scrollback" && scrollback) socket.send(JSON.stringify(scrollback(from, count)));
    });
    for (const frame of frames) socket.send(JSON.stringify(frame));
  }

  #list() {
    return { frame: "sessions", sessions: this.sessions };
  }

  #frame() {
    return { frame: "snapshot", ...this.snapshot };
  }

  /** Sends the page a frame about the list of sessions. */
  sendToList(frame) {
    for (const { socket, list } of this.sockets) if (list) socket.send(JSON.stringify(frame));
  }

  /** Sends the page a conversation and waits until it is shown. */
  async show(content = {}, sessions = [session()]) {
    this.number += 1;
    const title = content.head?.title ?? `Content ${this.number}: the cart adds up wrong after a coupon`;
    this.sessions = sessions;
    this.snapshot = snapshot({ revision: this.number + 1, ...content, head: { ...HEAD, ...content.head, title } });
    for (const { socket, list } of this.sockets) socket.send(JSON.stringify(list ? this.#list() : this.#frame()));
    const wanted = { title, request: content.requests?.[0]?.id, queued: content.queue?.length ?? 0, rows: sessions.length };
    await this.page.waitForFunction(
      ({ title, request, queued, rows }) =>
        document.querySelector(".bar h1")?.textContent === title &&
        document.querySelector("section.request")?.dataset.request === request &&
        document.querySelectorAll(".queued-prompts li").length === queued &&
        document.querySelectorAll(".sidebar .row").length === rows,
      wanted,
    );
  }

  /** Loads the page again, which forgets what the user did. */
  async reload() {
    this.sockets.clear();
    // Going back, which closing a dialog does, ends a reload that has just started.
    await this.page.reload().catch(() => this.page.reload());
    await this.page.waitForSelector(".composer, .empty, .sign-in", { state: "attached" });
  }
}

/** Runs steps, each with a function that opens pages for it. Errors of any page fail the script. */
export async function stubbedSteps(steps) {
  const server = await Server.start({ demo: true });
  const screen = await Screen.open(server);
  try {
    for (const [name, step] of Object.entries(steps)) {
      const began = Date.now();
      const opened = [];
      await step(async (kind, init) => {
        const stubbed = await StubbedPage.open(screen.browser, server, kind, init, (page) => screen.watch(page));
        opened.push(stubbed);
        return stubbed;
      }).catch((problem) => {
        throw new Error(`${name}: ${problem.stack}`);
      });
      for (const stubbed of opened) await stubbed.context.close();
      assert.deepEqual(screen.faults, [], name);
      console.log(`✓ ${name} (${Date.now() - began} ms)`);
    }
    await screen.close();
  } finally {
    await screen.browser.close().catch(() => undefined);
    await server.stop();
  }
}

/** A session of the CLI in the list. */
export function transcript(n, more = {}) {
  return { id: `44444444-4444-4444-8444-${String(n).padStart(12, "0")}`, title: `Transcript ${n}`, cwd: "/home/me/shop", branch: "main", model: "claude-opus-5-5", modified: NOW - n * 60_000, size: 120_000 + n, messages: 12, cost: 0.4, context: 9000, in_terminal: false, session: null, ...more };
}

/** The list of them, page by page as the server gives it. */
export function transcriptPages(all) {
  return (request) => {
    const query = new URL(request.url()).searchParams;
    const after = query.get("after")?.split(".")[1];
    const from = after ? all.findIndex((it) => it.id === after) + 1 : 0;
    const end = from + Number(query.get("limit") ?? 100);
    return { transcripts: all.slice(from, end), more: end < all.length };
  };
}

const HEAD = { cwd: "/home/me/shop", model: "claude-opus-5-5", mode: "acceptEdits", effort: "high" };

export function session(more = {}) {
  return { id: SESSION, title: "Fix the cart", cwd: "/home/me/shop", tier: "idle", status: "idle", agent: CLAUDE, active: NOW, created: NOW, agent_ids: [], last: 4, requests: 0, turn: 1, ...more };
}

function snapshot(more = {}) {
  return {
    revision: 1, head: HEAD, items: [], turns: [], more: false, queue: [], requests: [], todos: [],
    status: { phase: { kind: more.requests?.length ? "waiting" : "idle", requests: more.requests?.length ?? 0 }, since: NOW, turn_since: NOW },
    usage: { context: 81_000, window: 200_000, cost: 12.345, tokens: { input: 1, output: 1, cache_read: 1, cache_write: 1 }, plan: { used: 0.8 } },
    ...more,
  };
}

let requests = 0;
/** A request; every one has another id, because the page keeps the card of a request. */
export function request(more = {}) {
  requests += 1;
  return {
    id: `request-${requests}`, kind: "permission", tool: "Bash", action: "run", target: "", input: "{}", html: "", disclosures: [], modes: [], rules: [], choices: [],
    at: NOW, expires: Date.now() + 24 * 3_600_000, ...more,
  };
}

let items = 0;
export function item(html, more = {}) {
  items += 1;
  return { id: `item-${items}`, kind: "text", html, first: items, rev: items, position: [items, 0], turn: 1, at: NOW, ...more };
}

export const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

/** A call's element, as the server renders it. */
export function callHtml({ look = "edit", verb = "Write", target = "src/cart.ts", state = "waiting", body = "" }) {
  return `<div class="item call ${look} ${state}"><details open><summary><span class="icon">✚</span><span class="verb">${verb}</span><span class="target">${escaped(target)}</span><span class="took">3 lines</span><span class="mark">✔</span></summary><div class="body"><p class="remark">Waits for an answer</p>${body}</div></details></div>`;
}

export const codeHtml = (text) => `<pre class="code" data-language="ts"><code><span class=tk>export</span> ${escaped(text)}</code></pre>`;

export const diffHtml = (text) =>
  `<div class="diff">${text.split("\n").map((line, n) => `<div class=removed><i>${n + 1}</i><b>-</b><code>${escaped(line)}</code></div><div class=added><i>${n + 1}</i><b>+</b><code><mark>const</mark> ${escaped(line)}</code></div>`).join("")}<div class=kept><i>9</i><b> </b><code>}</code></div></div>`;

const REPLIES = {
  "GET /ledger": { entries: [] }, "GET /grants": { grants: [] }, "GET /tokens": { tokens: [] }, "GET /changed": { files: [] }, "GET /usage": { days: [] },
  "GET /lines": { lines: [], more: false }, "GET /files": { paths: [] }, "GET /directories": { directories: [] }, "GET /items": { items: [], turns: [], more: false },
  "GET /transcripts": { transcripts: [], more: false }, "GET /search": { results: [], more: null, indexing: null },
  "POST /wake": { commands: [], models: [] }, "GET /rewind": { canRewind: true, filesChanged: [] },
  // Without a path it is the session itself. Its configuration and the server's have the same path here.
  "GET ": { ...session(), options: {}, restart_pending: false }, "GET /options": optionsReply(), "GET /agents": agentsReply(), "GET /agent": agentReply(12, "Tool", ["connected"]), "GET /agent/files": agentFilesReply(), "GET /outline": { prompts: [], total: 0 }, "GET /watch": { default: null, config: null, inherited: true, log: [], last: 4, processed: 4 },
};
