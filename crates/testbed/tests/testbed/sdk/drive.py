"""The official Python SDK as a client of the scripted API. Exits with 0 if all checks pass."""

import anthropic
from anthropic import Anthropic

MODEL = "claude-opus-5-5"
TOOLS = [{
    "name": "get_weather",
    "description": "The weather in a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}]

client = Anthropic(max_retries=0)


def request(prompt):
    return {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": prompt}]}


def fails_with(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def whole():
    message = client.messages.create(**request("say hello"))
    assert [block.text for block in message.content] == ["Hello there, friend."], message
    assert (message.role, message.stop_reason, message.model) == ("assistant", "end_turn", MODEL)
    assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0, message.usage
    assert message.usage.cache_read_input_tokens == 0, message.usage
    assert message.id.startswith("msg_") and message._request_id.startswith("req_")


def stream():
    with client.messages.stream(**request("say hello")) as stream:
        pieces = list(stream.text_stream)
        message = stream.get_final_message()
    assert len(pieces) == 3 and "".join(pieces) == "Hello there, friend.", pieces
    assert message.stop_reason == "end_turn" and message.usage.output_tokens == 3, message


def raw_events():
    events = client.messages.create(**request("say hello"), stream=True)
    kinds = [event.type for event in events]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop", kinds


def thinking():
    with client.messages.stream(**request("think about it")) as stream:
        message = stream.get_final_message()
    thought, text = message.content
    assert thought.type == "thinking" and thought.thinking == "First this, then that.", thought
    assert thought.signature, thought
    assert text.text == "Done.", text


def tools():
    for streaming in (False, True):
        body = request("how is the weather?") | {"tools": TOOLS}
        if streaming:
            with client.messages.stream(**body) as stream:
                message = stream.get_final_message()
        else:
            message = client.messages.create(**body)
        assert message.stop_reason == "tool_use", message
        call = message.content[-1]
        assert (call.name, call.input) == ("get_weather", {"city": "São Paulo"}), call
        assert call.id.startswith("toolu_"), call
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
        body["messages"] += [
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": [result]},
        ]
        message = client.messages.create(**body)
        assert message.content[0].text == "It is sunny.", message


def stop_reasons():
    for reason in ("max_tokens", "refusal", "pause_turn", "model_context_window_exceeded"):
        message = client.messages.create(**request(f"stop with {reason}"))
        assert message.stop_reason == reason, message
    message = client.messages.create(**request("stop with stop_sequence"), stop_sequences=["END"])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END"), message


def errors():
    overloaded = fails_with(anthropic.InternalServerError, lambda: client.messages.create(**request("overload")))
    assert overloaded.status_code == 529, overloaded
    assert overloaded.body["error"]["type"] == "overloaded_error", overloaded.body
    assert overloaded.request_id.startswith("req_"), overloaded.request_id
    limited = fails_with(anthropic.RateLimitError, lambda: client.messages.create(**request("limit")))
    assert limited.response.headers["retry-after"] == "7", limited.response.headers
    fails_with(anthropic.BadRequestError, lambda: client.messages.create(**(request("x") | {"messages": []})))
    fails_with(anthropic.NotFoundError, lambda: client.models.retrieve("gpt"))
    for name in ("claude-nobody-1", "sonnet4"):
        unknown = fails_with(anthropic.NotFoundError, lambda: client.messages.create(**(request("x") | {"model": name})))
        assert unknown.body["error"] == {"type": "not_found_error", "message": f"model: {name}"}, unknown.body

    def read(prompt):
        with client.messages.stream(**request(prompt)) as stream:
            for _ in stream.text_stream:
                pass
    midway = fails_with(anthropic.APIStatusError, lambda: read("midway"))
    assert "overloaded_error" in str(midway.body), midway.body
    fails_with(Exception, lambda: read("broken"))


def retries():
    retrying = Anthropic(max_retries=2)
    message = retrying.messages.create(**request("fail once"))
    assert message.content[0].text == "Now it works.", message


def others():
    count = client.messages.count_tokens(model=MODEL, messages=request("one two three")["messages"])
    assert count.input_tokens > 0, count
    models = [model.id for model in client.models.list()]
    assert MODEL in models and client.models.retrieve(MODEL).id == MODEL, models


def batches():
    prompts = {"first": "say hello", "second": "overload"}
    requests = [{"custom_id": name, "params": request(prompt)} for name, prompt in prompts.items()]
    batch = client.messages.batches.create(requests=requests)
    assert (batch.processing_status, batch.request_counts.processing) == ("in_progress", 2), batch
    assert batch.id.startswith("msgbatch_") and batch.results_url is None, batch
    batch = client.messages.batches.retrieve(batch.id)
    assert batch.processing_status == "ended" and batch.ended_at > batch.created_at, batch
    assert (batch.request_counts.succeeded, batch.request_counts.errored) == (1, 1), batch
    first, second = client.messages.batches.results(batch.id)
    assert first.custom_id == "first" and first.result.message.content[0].text == "Hello there, friend.", first
    assert second.result.error.error.type == "overloaded_error", second

    other = client.messages.batches.create(requests=requests[:1])
    assert client.messages.batches.cancel(other.id).processing_status == "canceling"
    other = client.messages.batches.retrieve(other.id)
    assert other.request_counts.canceled == 1 and other.cancel_initiated_at, other
    assert [result.result.type for result in client.messages.batches.results(other.id)] == ["canceled"]
    assert [it.id for it in client.messages.batches.list(limit=1)] == [other.id, batch.id]
    assert client.messages.batches.delete(other.id).type == "message_batch_deleted"
    fails_with(anthropic.NotFoundError, lambda: client.messages.batches.retrieve(other.id))
    fails_with(anthropic.BadRequestError, lambda: client.messages.batches.create(requests=[]))


for check in (whole, stream, raw_events, thinking, tools, stop_reasons, errors, retries, others, batches):
    check()
    print("passed:", check.__name__)
