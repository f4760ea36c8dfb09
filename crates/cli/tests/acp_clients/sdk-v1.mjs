// Drives an agent with the TypeScript SDK, in the first version of the protocol.
//
// usage: sdk-v1.mjs CASE...
import assert from "node:assert/strict";
import { existsSync, rmSync } from "node:fs";
import * as acp from "@agentclientprotocol/sdk";
import { open } from "./transport.mjs";

/** A client that remembers what it is told, and chooses options of one kind. */
class Editor {
  constructor(choice = "allow_once") {
    this.updates = [];
    this.asked = [];
    this.app = acp
      .client({ name: "typescript-editor" })
      .onNotification("session/update", ({ params }) => void this.updates.push(params.update))
      .onRequest("session/request_permission", ({ params }) => {
        this.asked.push(params);
        const chosen = params.options.find((it) => it.kind === choice);
        return { outcome: { outcome: "selected", optionId: chosen.optionId } };
      });
  }

  text(kind = "agent_message_chunk") {
    return this.updates.filter((it) => it.sessionUpdate === kind).map((it) => it.content.text).join("");
  }

  states() {
    const calls = new Map();
    for (const it of this.updates) if (it.toolCallId && it.status) calls.set(it.toolCallId, it.status);
    return [...calls.values()];
  }
}

/** Calls `use` with a connection, and ends it. */
async function connect(editor, use) {
  const [stream, end] = open(acp.ndJsonStream);
  await editor.app.connectWith(stream, async (agent) => {
    const clientInfo = { name: "typescript-editor", version: "1" };
    const said = await agent.request("initialize", { protocolVersion: 1, clientInfo, clientCapabilities: {} });
    assert.equal(said.protocolVersion, 1);
    await use(agent, said);
  });
  await end();
}

const cwd = process.cwd();
const begin = async (agent) => (await agent.request("session/new", { cwd, mcpServers: [] })).sessionId;
const say = async (agent, sessionId, text) => (await agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] })).stopReason;

const cases = {
  async text() {
    const editor = new Editor();
    await connect(editor, async (agent) => {
      assert.equal(await say(agent, await begin(agent), "say hello"), "end_turn");
      assert.equal(editor.text(), "Hello from the model");
    });
  },

  async allow() {
    const editor = new Editor();
    await connect(editor, async (agent) => {
      assert.equal(await say(agent, await begin(agent), "make a file"), "end_turn");
      assert.equal(editor.asked.length, 1);
      assert.deepEqual(editor.states(), ["completed"]);
      assert.ok(existsSync("a.made"));
      rmSync("a.made");
    });
  },

  async deny() {
    const editor = new Editor("reject_once");
    await connect(editor, async (agent) => {
      assert.equal(await say(agent, await begin(agent), "make no file"), "end_turn");
      assert.deepEqual(editor.states(), ["failed"]);
      assert.ok(!existsSync("no.made"));
    });
  },

  async load() {
    const [first, second] = [new Editor(), new Editor()];
    let session;
    await connect(first, async (agent) => {
      session = await begin(agent);
      await say(agent, session, "say hello");
    });
    await connect(second, async (agent, said) => {
      assert.ok(said.agentCapabilities.loadSession);
      await agent.request("session/load", { sessionId: session, cwd, mcpServers: [] });
      assert.equal(second.text("user_message_chunk"), "say hello");
      assert.equal(second.text(), "Hello from the model");
      const { sessions } = await agent.request("session/list", { cwd });
      assert.ok(sessions.some((it) => it.sessionId === session));
    });
  },

  /** A second prompt waits for the first one, and both are answered. */
  async queue() {
    const editor = new Editor();
    await connect(editor, async (agent) => {
      const session = await begin(agent);
      const both = await Promise.all([say(agent, session, "say hello"), say(agent, session, "say hello")]);
      assert.deepEqual(both, ["end_turn", "end_turn"]);
      assert.equal(editor.text(), "Hello from the modelHello from the model");
    });
  },
};

for (const name of process.argv.slice(2)) await cases[name]();
process.exit(0);
