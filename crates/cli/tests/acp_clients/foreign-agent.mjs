// A small agent on the official SDK: it answers, asks for permission, and makes a file.
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { randomUUID } from "node:crypto";
import * as acp from "@agentclientprotocol/sdk";

const directories = new Map();
const options = [
  { optionId: "yes", name: "Allow", kind: "allow_once" },
  { optionId: "no", name: "Reject", kind: "reject_once" },
];

const agent = acp
  .agent({ name: "foreign" })
  .onRequest("initialize", ({ params }) => ({
    protocolVersion: Math.min(params.protocolVersion, 1),
    agentInfo: { name: "foreign", version: "1" },
    agentCapabilities: { loadSession: false },
  }))
  .onRequest("session/new", ({ params }) => {
    const sessionId = randomUUID();
    directories.set(sessionId, params.cwd);
    return { sessionId };
  })
  .onRequest("session/prompt", async ({ params: { sessionId, prompt }, client }) => {
    const update = (update) => client.notify("session/update", { sessionId, update });
    const say = (text) => update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
    const words = prompt.map((it) => it.text ?? "").join("");
    const file = words.match(/make (\S+) file/)?.[1];
    if (!file) {
      for (const word of "Hello from the model".split(/(?<= )/)) await say(word);
      return { stopReason: "end_turn" };
    }
    const toolCallId = randomUUID();
    await update({ sessionUpdate: "tool_call", toolCallId, title: `touch ${file}`, kind: "execute", status: "pending" });
    const { outcome } = await client.request("session/request_permission", { sessionId, toolCall: { toolCallId }, options });
    const allowed = outcome.optionId === "yes";
    if (allowed) appendFileSync(join(directories.get(sessionId), `${file}.made`), "");
    await update({ sessionUpdate: "tool_call_update", toolCallId, status: allowed ? "completed" : "failed" });
    await say("Made it.");
    return { stopReason: "end_turn" };
  });

const stream = acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
await agent.connect(stream).closed;
process.exit(0);
