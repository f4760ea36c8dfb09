// The official TypeScript Agent SDK with the agent at $AGENT: query, permissions, interrupt.

import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";

const agent = process.env.AGENT;
const options = (more = {}) => ({ pathToClaudeCodeExecutable: agent, cwd: process.cwd(), ...more });

const all = async (stream) => {
  const messages = [];
  for await (const message of stream) messages.push(message);
  return messages;
};
const result = (messages) => messages.findLast((message) => message.type === "result");
const blocks = (messages, type) =>
  messages
    .filter((message) => message.type === "assistant" || message.type === "user")
    .flatMap((message) => (Array.isArray(message.message.content) ? message.message.content : []))
    .filter((block) => block.type === type);

/** A stream of prompts that the test sends one by one. */
const prompts = () => {
  const waiting = [];
  let wake;
  const send = (text) => {
    const message = { role: "user", content: text };
    waiting.push({ type: "user", message, parent_tool_use_id: null, session_id: "" });
    wake?.();
  };
  const end = () => {
    waiting.push(null);
    wake?.();
  };
  const stream = (async function* () {
    for (;;) {
      while (waiting.length === 0) await new Promise((resolve) => (wake = resolve));
      const next = waiting.shift();
      if (next === null) return;
      yield next;
    }
  })();
  return { send, end, stream };
};

const tests = {
  async "a prompt is answered"() {
    const messages = await all(query({ prompt: "show me markdown", options: options() }));
    assert.match(blocks(messages, "text")[0].text, /Welcome to Towpath/);
    const ended = result(messages);
    assert.equal(ended.subtype, "success");
    assert.equal(ended.is_error, false);
    const init = messages.find((message) => message.subtype === "init");
    assert.match(init.claude_code_version, /^\d+\.\d+\.\d+$/);
  },

  async "partial messages are streamed"() {
    const given = options({ includePartialMessages: true });
    const messages = await all(query({ prompt: "think", options: given }));
    const kinds = new Set(messages.filter((it) => it.type === "stream_event").map((it) => it.event.type));
    for (const kind of ["message_start", "content_block_delta", "message_stop"]) assert(kinds.has(kind));
  },

  async "the host decides permissions"() {
    const asked = [];
    const canUseTool = async (name, input) => {
      asked.push(name);
      if (name === "Write") return { behavior: "allow", updatedInput: { ...input, content: "host\n" } };
      return { behavior: "deny", message: "not today" };
    };
    const { send, end, stream } = prompts();
    const conversation = query({ prompt: stream, options: options({ canUseTool }) });
    send("permission please");
    const messages = [];
    for await (const message of conversation) {
      messages.push(message);
      if (message.type !== "result") continue;
      if (asked.length === 1) send("a question please");
      else end();
    }
    assert.deepEqual(asked, ["Write", "AskUserQuestion"]);
    assert.equal(readFileSync("towpath-demo.txt", "utf8"), "host\n");
    const calls = blocks(messages, "tool_use").map((block) => block.id);
    const answers = blocks(messages, "tool_result").map((block) => block.tool_use_id);
    assert.deepEqual(calls.toSorted(), answers.toSorted());
  },

  async "the host interrupts a turn and continues"() {
    const { send, end, stream } = prompts();
    const conversation = query({ prompt: stream, options: options({ includePartialMessages: true }) });
    send("something long");
    const subtypes = [];
    let interrupted = false;
    for await (const message of conversation) {
      if (message.type === "stream_event" && !interrupted && message.event.type === "content_block_delta") {
        interrupted = true;
        await conversation.interrupt();
      }
      if (message.type !== "result") continue;
      subtypes.push(message.subtype);
      if (subtypes.length === 1) send("think");
      else end();
    }
    assert.deepEqual(subtypes, ["error_during_execution", "success"]);
  },

  async "models and commands are known before the first prompt"() {
    const { end, stream } = prompts();
    const conversation = query({ prompt: stream, options: options() });
    const [models, commands] = [await conversation.supportedModels(), await conversation.supportedCommands()];
    assert(models.length > 0 && commands.length > 0);
    await conversation.setPermissionMode("acceptEdits");
    await conversation.setModel("sonnet");
    end();
    await all(conversation);
  },

  async "hooks of the host are called"() {
    const seen = [];
    const before = async (input) => {
      seen.push(input.tool_name);
      const permissionDecision = "deny";
      const hookEventName = "PreToolUse";
      return { hookSpecificOutput: { hookEventName, permissionDecision, permissionDecisionReason: "policy" } };
    };
    const hooks = { PreToolUse: [{ matcher: "Bash", hooks: [before] }] };
    const messages = await all(query({ prompt: "bash colours", options: options({ hooks }) }));
    assert.deepEqual(seen, ["Bash"]);
    assert.match(JSON.stringify(blocks(messages, "tool_result")[0].content), /policy/);
  },

  async "MCP servers of the host are connected"() {
    const add = tool("add", "Adds", { a: z.number(), b: z.number() }, async ({ a, b }) => ({
      content: [{ type: "text", text: String(a + b) }],
    }));
    const mcpServers = { calc: createSdkMcpServer({ name: "calc", tools: [add] }) };
    const { send, end, stream } = prompts();
    const conversation = query({ prompt: stream, options: options({ mcpServers }) });
    send("think");
    for await (const message of conversation) {
      if (message.type === "system" && message.subtype === "init") {
        assert(message.tools.includes("mcp__calc__add"), JSON.stringify(message.tools));
      }
      if (message.type === "result") end();
    }
  },
};

for (const [name, test] of Object.entries(tests)) {
  if (existsSync("towpath-demo.txt")) rmSync("towpath-demo.txt");
  const late = new Promise((_, reject) => setTimeout(reject, 30_000, new Error(`${name}: timed out`)).unref());
  await Promise.race([test(), late]);
  console.log("ok", name);
}
process.exit(0);
