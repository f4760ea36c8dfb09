"""LiteLLM as a client of the scripted API. Exits with 0 if all checks pass."""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

MODEL = "anthropic/claude-opus-5-5"
COMMON = {"api_base": os.environ["ANTHROPIC_BASE_URL"], "num_retries": 0, "max_tokens": 100}
TOOLS = [{
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}]
litellm.telemetry = False


def ask(prompt, model=MODEL, **more):
    messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
    return litellm.completion(model=model, messages=messages, **COMMON, **more)


def whole():
    answer = ask("say hello")
    assert answer.choices[0].message.content == "Hello there, friend.", answer
    assert answer.choices[0].finish_reason == "stop" and answer.usage.completion_tokens > 0, answer


def stream():
    pieces = [chunk.choices[0].delta.content or "" for chunk in ask("say hello", stream=True)]
    assert "".join(pieces) == "Hello there, friend.", pieces


def tools():
    message = ask("how is the weather?", tools=TOOLS).choices[0].message
    call = message.tool_calls[0]
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "São Paulo"}), call
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    messages = [{"role": "user", "content": "how is the weather?"}, message, result]
    answer = ask(messages, tools=TOOLS)
    assert answer.choices[0].message.content == "It is sunny.", answer


def fails_with(kind, **request):
    try:
        ask(**request)
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def errors():
    fails_with(litellm.InternalServerError, prompt="overload")
    text = fails_with(litellm.NotFoundError, prompt="x", model="anthropic/claude-nobody-1")
    assert "model: claude-nobody-1" in text, text


for check in (whole, stream, tools, errors):
    check()
    print("passed:", check.__name__)
