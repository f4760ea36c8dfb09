// The AI SDK as a client of the scripted API. Exits with 0 if all checks pass.

import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { APICallError, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

const { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: apiKey } = process.env;
const anthropic = createAnthropic({ baseURL: `${url}/v1`, apiKey });
const model = anthropic("claude-opus-5-5");

const checks = {
  async whole() {
    const { text, finishReason, usage } = await generateText({ model, prompt: "say hello" });
    assert.equal(text, "Hello there, friend.");
    assert.equal(finishReason, "stop");
    assert.ok(usage.outputTokens > 0);
  },

  async stream() {
    const pieces = [];
    for await (const piece of streamText({ model, prompt: "say hello" }).textStream) pieces.push(piece);
    assert.equal(pieces.join(""), "Hello there, friend.");
    assert.ok(pieces.length > 1);
  },

  async thinking() {
    const { text, reasoningText } = await generateText({ model, prompt: "think about it" });
    assert.deepEqual([text, reasoningText], ["Done.", "First this, then that."]);
  },

  async tools() {
    const cities = [];
    const get_weather = tool({
      description: "The weather in a city",
      inputSchema: jsonSchema({ type: "object", properties: { city: { type: "string" } } }),
      execute: async ({ city }) => {
        cities.push(city);
        return "sunny";
      },
    });
    const prompt = "how is the weather?";
    const answer = await generateText({ model, prompt, tools: { get_weather }, stopWhen: stepCountIs(3) });
    assert.deepEqual(cities, ["São Paulo"]);
    assert.equal(answer.text, "It is sunny.");
  },

  async errors() {
    const fails = async (prompt, model, check) => {
      await assert.rejects(generateText({ model, prompt, maxRetries: 0 }), (error) => {
        assert.ok(APICallError.isInstance(error), error);
        check(error);
        return true;
      });
    };
    await fails("overload", model, (error) => assert.equal(error.statusCode, 529));
    await fails("x", anthropic("claude-nobody-1"), (error) => {
      assert.equal(error.statusCode, 404);
      assert.equal(error.message, "model: claude-nobody-1");
    });
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log("passed:", name);
}
