// A connection to the agent under test: the program $ACP_AGENT, or the server at $ACP_URL.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";

const { ACP_AGENT, ACP_URL, ACP_TOKEN } = process.env;

/** The stream of messages, and what ends the connection. */
export function open(ndJsonStream) {
  if (ACP_URL) {
    const headers = { authorization: `Bearer ${ACP_TOKEN}` };
    return [createWebSocketStream(ACP_URL, { headers, WebSocket }), async () => {}];
  }
  const child = spawn(ACP_AGENT, [], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(child, "exit");
  const end = async () => {
    child.stdin.end();
    assert.equal((await ended)[0], 0);
  };
  return [ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), end];
}
