// The official TypeScript SDK as a client of the scripted API. Exits with 0 if all checks pass.

import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";

const model = "claude-opus-5-5";
const tools = [
  {
    name: "get_weather",
    description: "The weather in a city",
    input_schema: { type: "object", properties: { city: { type: "string" } } },
  },
];
const client = new Anthropic({ maxRetries: 0 });
const request = (prompt) => ({ model, max_tokens: 100, messages: [{ role: "user", content: prompt }] });

const checks = {
  async whole() {
    const message = await client.messages.create(request("say hello"));
    assert.equal(message.content[0].text, "Hello there, friend.");
    assert.equal(message.stop_reason, "end_turn");
    assert.ok(message.usage.input_tokens > 0 && message.usage.cache_read_input_tokens === 0);
    assert.match(message.id, /^msg_/);
    assert.match(message._request_id, /^req_/);
  },

  async stream() {
    const pieces = [];
    const stream = client.messages.stream(request("say hello")).on("text", (text) => pieces.push(text));
    const message = await stream.finalMessage();
    assert.deepEqual(pieces, ["Hello", " there,", " friend."]);
    assert.equal(message.usage.output_tokens, 3);
  },

  async rawEvents() {
    const kinds = [];
    for await (const event of await client.messages.create({ ...request("say hello"), stream: true })) {
      kinds.push(event.type);
    }
    assert.equal(kinds[0], "message_start");
    assert.equal(kinds.at(-1), "message_stop");
  },

  async thinking() {
    const message = await client.messages.stream(request("think about it")).finalMessage();
    assert.equal(message.content[0].thinking, "First this, then that.");
    assert.ok(message.content[0].signature);
    assert.equal(message.content[1].text, "Done.");
  },

  async tools() {
    for (const streaming of [false, true]) {
      const body = { ...request("how is the weather?"), tools };
      const message = streaming
        ? await client.messages.stream(body).finalMessage()
        : await client.messages.create(body);
      assert.equal(message.stop_reason, "tool_use");
      const call = message.content.at(-1);
      assert.deepEqual([call.name, call.input], ["get_weather", { city: "São Paulo" }]);
      const result = { type: "tool_result", tool_use_id: call.id, content: "sunny" };
      const messages = [
        ...body.messages,
        { role: "assistant", content: message.content },
        { role: "user", content: [result] },
      ];
      const answer = await client.messages.create({ ...body, messages });
      assert.equal(answer.content[0].text, "It is sunny.");
    }
  },

  async errors() {
    await assert.rejects(client.messages.create(request("overload")), (error) => {
      assert.equal(error.status, 529);
      assert.equal(error.error.error.type, "overloaded_error");
      assert.match(error.requestID, /^req_/);
      return true;
    });
    await assert.rejects(client.messages.create(request("limit")), Anthropic.RateLimitError);
    const empty = { ...request("x"), messages: [] };
    await assert.rejects(client.messages.create(empty), Anthropic.BadRequestError);
    await assert.rejects(client.models.retrieve("gpt"), Anthropic.NotFoundError);
    const unknown = { ...request("x"), model: "claude-nobody-1" };
    await assert.rejects(client.messages.create(unknown), (error) => {
      assert.equal(error.status, 404);
      assert.deepEqual(error.error.error, { type: "not_found_error", message: "model: claude-nobody-1" });
      return true;
    });
    await assert.rejects(client.messages.stream(request("midway")).finalMessage(), /overloaded_error/);
    await assert.rejects(client.messages.stream(request("broken")).finalMessage());
  },

  async retries() {
    const retrying = new Anthropic({ maxRetries: 2 });
    const message = await retrying.messages.create(request("fail once"));
    assert.equal(message.content[0].text, "Now it works.");
  },

  async others() {
    const { messages } = request("one two three");
    assert.ok((await client.messages.countTokens({ model, messages })).input_tokens > 0);
    const models = [];
    for await (const { id } of client.models.list()) models.push(id);
    assert.ok(models.includes(model));
  },

  async batches() {
    const prompts = { first: "say hello", second: "overload" };
    const requests = Object.entries(prompts).map(([custom_id, prompt]) => ({
      custom_id,
      params: request(prompt),
    }));
    const created = await client.messages.batches.create({ requests });
    assert.equal(created.processing_status, "in_progress");
    const ended = await client.messages.batches.retrieve(created.id);
    assert.equal(ended.processing_status, "ended");
    const results = [];
    for await (const result of await client.messages.batches.results(created.id)) results.push(result);
    assert.equal(results[0].result.message.content[0].text, "Hello there, friend.");
    assert.equal(results[1].result.error.error.type, "overloaded_error");

    const other = await client.messages.batches.create({ requests });
    assert.equal((await client.messages.batches.cancel(other.id)).processing_status, "canceling");
    assert.equal((await client.messages.batches.retrieve(other.id)).request_counts.canceled, 2);
    const ids = [];
    for await (const { id } of client.messages.batches.list({ limit: 1 })) ids.push(id);
    assert.deepEqual(ids.slice(0, 2), [other.id, created.id]);
    await assert.rejects(client.messages.batches.retrieve("msgbatch_none"), Anthropic.NotFoundError);
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log("passed:", name);
}
