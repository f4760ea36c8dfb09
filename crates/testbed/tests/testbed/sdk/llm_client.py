"""`llm` with its plugin for Anthropic as a client of the scripted API. Exits with 0 if all checks pass."""

import os

import llm
from llm_anthropic import ClaudeMessages

KEY = os.environ["ANTHROPIC_API_KEY"]


def model(name="claude-opus-5-5"):
    return ClaudeMessages(name, claude_model_id=name, base_url=os.environ["ANTHROPIC_BASE_URL"])


def whole():
    response = model().prompt("say hello", stream=False, key=KEY)
    assert response.text() == "Hello there, friend.", response.text()


def stream():
    pieces = list(model().prompt("say hello", stream=True, key=KEY))
    assert "".join(pieces) == "Hello there, friend." and len(pieces) > 1, pieces


def tools():
    cities = []

    def get_weather(city: str) -> str:
        """The weather in a city"""
        cities.append(city)
        return "sunny"

    chain = model().chain("how is the weather?", tools=[get_weather], key=KEY, stream=False)
    text = chain.text()
    assert cities == ["São Paulo"] and text.endswith("It is sunny."), (cities, text)


def errors():
    try:
        model("claude-nobody-1").prompt("x", stream=False, key=KEY).text()
    except Exception as error:
        assert "model: claude-nobody-1" in str(error), error
    else:
        raise AssertionError("no error")


for check in (whole, stream, tools, errors):
    check()
    print("passed:", check.__name__)
