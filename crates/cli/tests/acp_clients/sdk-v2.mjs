// Drives an agent with the TypeScript SDK, in the second version of the protocol.
//
// usage: sdk-v2.mjs CASE...
import assert from "node:assert/strict";
import { existsSync, rmSync } from "node:fs";
import * as acp from "@agentclientprotocol/sdk/experimental/v2";
import { open } from "./transport.mjs";

const cwd = process.cwd();

/** A client that remembers what it is told, and chooses options of one kind. */
class Editor {
  constructor(choice = "allow_once") {
    this.updates = [];
    this.asked = [];
    this.waiting = new Set();
    this.app = acp
      .client({ name: "typescript-editor" })
      .onNotification("session/update", ({ params }) => {
        this.updates.push(params.update);
        this.waiting.forEach((it) => it());
      })
      .onRequest("session/request_permission", ({ params }) => {
        this.asked.push(params);
        this.waiting.forEach((it) => it());
        const chosen = params.options.find((it) => it.kind === choice);
        return { outcome: { outcome: "selected", optionId: chosen.optionId } };
      });
  }

  /** Waits until a condition holds. */
  async until(condition) {
    while (!condition()) {
      await new Promise((resolve) => {
        this.waiting.add(resolve);
      });
      this.waiting.clear();
    }
  }

  of(kind) {
    return this.updates.filter((it) => it.sessionUpdate === kind);
  }

  /** The messages of one kind, whole or in chunks, by their ids. */
  messages(kind) {
    const texts = new Map();
    for (const it of this.updates) {
      if (it.sessionUpdate === `${kind}_chunk`) texts.set(it.messageId, (texts.get(it.messageId) ?? "") + (it.content.text ?? ""));
      if (it.sessionUpdate === kind && it.content) texts.set(it.messageId, it.content.map((part) => part.text ?? "").join(""));
    }
    return [...texts.values()];
  }

  states() {
    const calls = new Map();
    for (const it of this.of("tool_call_update")) if (it.status) calls.set(it.toolCallId, it.status);
    return [...calls.values()];
  }

  /** How turns ended. */
  endings() {
    return this.of("state_update").filter((it) => it.state === "idle" && it.stopReason).map((it) => it.stopReason);
  }
}

async function connect(editor, use) {
  const [stream, end] = open(acp.ndJsonStream);
  await editor.app.connectWith(stream, async (agent) => {
    const info = { name: "typescript-editor", version: "2" };
    const said = await agent.request("initialize", { protocolVersion: 2, info, capabilities: {} });
    assert.equal(said.protocolVersion, 2);
    await use(agent, said);
  });
  await end();
}

const begin = async (agent) => (await agent.request("session/new", { cwd, mcpServers: [] })).sessionId;
const say = async (agent, sessionId, text) => (await agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] })).messageId;

const cases = {
  async text() {
    const editor = new Editor();
    await connect(editor, async (agent) => {
      const message = await say(agent, await begin(agent), "say hello");
      await editor.until(() => editor.endings().length);
      assert.deepEqual(editor.endings(), ["end_turn"]);
      assert.deepEqual(editor.messages("agent_message"), ["Hello from the model"]);
      assert.ok(editor.updates.some((it) => it.messageId === message), "the prompt has the id that was returned");
      const states = editor.of("state_update").map((it) => it.state);
      assert.ok(states.indexOf("running") >= 0 && states.indexOf("running") < states.lastIndexOf("idle"), `${states}`);
    });
  },

  async allow() {
    const editor = new Editor();
    await connect(editor, async (agent) => {
      await say(agent, await begin(agent), "make a file");
      await editor.until(() => editor.endings().length);
      assert.equal(editor.asked.length, 1);
      assert.ok(editor.asked[0].title);
      assert.deepEqual(editor.states(), ["completed"]);
      assert.ok(editor.of("state_update").some((it) => it.state === "requires_action"));
      assert.ok(existsSync("a.made"));
      rmSync("a.made");
    });
  },

  async deny() {
    const editor = new Editor("reject_once");
    await connect(editor, async (agent) => {
      await say(agent, await begin(agent), "make no file");
      await editor.until(() => editor.endings().length);
      assert.deepEqual(editor.states(), ["failed"]);
      assert.ok(!existsSync("no.made"));
    });
  },

  async cancel() {
    const editor = new Editor();
    await connect(editor, async (agent) => {
      const session = await begin(agent);
      await say(agent, session, "count slowly");
      await editor.until(() => editor.messages("agent_message").some((it) => it.includes("one")));
      await agent.notify("session/cancel", { sessionId: session });
      await editor.until(() => editor.endings().length);
      assert.deepEqual(editor.endings(), ["cancelled"]);
    });
  },

  async resume() {
    const [first, second, third] = [new Editor(), new Editor(), new Editor()];
    let session;
    await connect(first, async (agent) => {
      session = await begin(agent);
      await say(agent, session, "say hello");
      await first.until(() => first.endings().length);
    });
    await connect(second, async (agent) => {
      await agent.request("session/resume", { sessionId: session, cwd, mcpServers: [], replayFrom: { type: "start" } });
      assert.deepEqual(second.messages("user_message"), ["say hello"]);
      assert.deepEqual(second.messages("agent_message"), ["Hello from the model"]);
    });
    await connect(third, async (agent) => {
      await agent.request("session/resume", { sessionId: session, cwd, mcpServers: [] });
      assert.deepEqual(third.messages("user_message"), []);
      await say(agent, session, "say hello");
      await third.until(() => third.endings().length);
      assert.deepEqual(third.messages("agent_message"), ["Hello from the model"]);
    });
  },

  /** An error of the model ends the turn with an error, and the session goes on. */
  async failure() {
    const editor = new Editor();
    await connect(editor, async (agent) => {
      const session = await begin(agent);
      await say(agent, session, "fail please");
      await editor.until(() => editor.endings().length);
      assert.deepEqual(editor.endings(), ["error"]);
      await say(agent, session, "say hello");
      await editor.until(() => editor.endings().length === 2);
      assert.deepEqual(editor.endings(), ["error", "end_turn"]);
    });
  },
};

for (const name of process.argv.slice(2)) await cases[name]();
process.exit(0);
