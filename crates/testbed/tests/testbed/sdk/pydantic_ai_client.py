"""Pydantic AI as a client of the scripted API. Exits with 0 if all checks pass."""

import asyncio
import os

from anthropic import AsyncAnthropic
from pydantic_ai import Agent, ModelHTTPError
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

client = AsyncAnthropic(base_url=os.environ["ANTHROPIC_BASE_URL"], max_retries=0)
provider = AnthropicProvider(anthropic_client=client)


def agent(model="claude-opus-5-5"):
    return Agent(AnthropicModel(model, provider=provider))


async def whole():
    result = await agent().run("say hello")
    assert result.output == "Hello there, friend.", result.output


async def stream():
    async with agent().run_stream("say hello") as result:
        pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
    assert "".join(pieces) == "Hello there, friend." and len(pieces) > 1, pieces


async def tools():
    cities = []
    weather = agent()

    @weather.tool_plain
    def get_weather(city: str) -> str:
        cities.append(city)
        return "sunny"

    result = await weather.run("how is the weather?")
    assert (cities, result.output) == (["São Paulo"], "It is sunny."), (cities, result.output)


async def fails(model, prompt, status):
    try:
        await agent(model).run(prompt)
    except ModelHTTPError as error:
        assert error.status_code == status, error
        return error
    raise AssertionError("no error")


async def errors():
    await fails("claude-opus-5-5", "overload", 529)
    error = await fails("claude-nobody-1", "x", 404)
    assert error.body["error"]["message"] == "model: claude-nobody-1", error.body


async def main():
    for check in (whole, stream, tools, errors):
        await check()
        print("passed:", check.__name__)


asyncio.run(main())
