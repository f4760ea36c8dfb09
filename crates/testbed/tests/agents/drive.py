"""The official Python Agent SDK with the agent at $AGENT: query, client, permissions, interrupt."""

import asyncio
import os

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

AGENT = os.environ["AGENT"]


def options(**more):
    return ClaudeAgentOptions(cli_path=AGENT, cwd=os.getcwd(), **more)


def blocks(messages, kind):
    of = [m for m in messages if isinstance(m, (AssistantMessage, UserMessage))]
    return [b for m in of if isinstance(m.content, list) for b in m.content if isinstance(b, kind)]


def result(messages):
    results = [m for m in messages if isinstance(m, ResultMessage)]
    assert results, messages
    return results[-1]


async def a_prompt_is_answered():
    messages = [m async for m in query(prompt="show me markdown", options=options())]
    assert "Welcome to Towpath" in blocks(messages, TextBlock)[0].text
    ended = result(messages)
    assert ended.subtype == "success" and not ended.is_error, ended
    assert ended.num_turns == 1 and ended.session_id, ended


async def thinking_has_a_signature():
    messages = [m async for m in query(prompt="think", options=options())]
    thought = blocks(messages, ThinkingBlock)[0]
    assert thought.thinking and thought.signature, thought


async def a_client_sends_two_prompts():
    async with ClaudeSDKClient(options()) as client:
        info = await client.get_server_info()
        assert info["commands"] and info["models"], info
        await client.query("think")
        first = result([m async for m in client.receive_response()])
        await client.query("markdown")
        second = result([m async for m in client.receive_response()])
        assert first.session_id == second.session_id


async def the_host_decides_permissions():
    asked = []

    async def decide(name, given, context):
        asked.append(name)
        if name == "Write":
            return PermissionResultAllow(updated_input={**given, "content": "changed by the host\n"})
        return PermissionResultDeny(message="not today")

    async with ClaudeSDKClient(options(can_use_tool=decide)) as client:
        await client.query("permission please")
        messages = [m async for m in client.receive_response()]
        assert asked == ["Write"], asked
        assert open("towpath-demo.txt").read() == "changed by the host\n"
        calls = {b.id for b in blocks(messages, ToolUseBlock)}
        answered = {b.tool_use_id for b in blocks(messages, ToolResultBlock)}
        assert calls == answered, (calls, answered)
        await client.query("a question please")
        messages = [m async for m in client.receive_response()]
        assert asked == ["Write", "AskUserQuestion"], asked
        assert "not today" in str(blocks(messages, ToolResultBlock)[0].content)


async def the_host_interrupts_a_turn():
    async with ClaudeSDKClient(options()) as client:
        await client.query("something long")
        await asyncio.sleep(0.5)
        await client.interrupt()
        ended = result([m async for m in client.receive_response()])
        assert ended.subtype == "error_during_execution", ended
        await client.query("think")
        assert result([m async for m in client.receive_response()]).subtype == "success"


async def hooks_of_the_host_are_called():
    seen = []

    async def before(given, call, context):
        seen.append(given["tool_name"])
        decision = {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
        return {"hookSpecificOutput": {**decision, "permissionDecisionReason": "policy"}}

    hooks = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[before])]}
    async with ClaudeSDKClient(options(hooks=hooks)) as client:
        await client.query("bash colours")
        messages = [m async for m in client.receive_response()]
        assert seen == ["Bash"], seen
        assert "policy" in str(blocks(messages, ToolResultBlock)[0].content)


async def mcp_servers_of_the_host_are_connected():
    @tool("add", "Adds", {"a": float, "b": float})
    async def add(given):
        return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}

    servers = {"calc": create_sdk_mcp_server("calc", tools=[add])}
    async with ClaudeSDKClient(options(mcp_servers=servers)) as client:
        await client.query("think")
        messages = [m async for m in client.receive_response()]
        assert result(messages).subtype == "success"
        status = await client.get_mcp_status()
        assert status["mcpServers"][0]["status"] == "connected", status


async def the_mode_and_the_model_are_changed():
    async with ClaudeSDKClient(options()) as client:
        await client.set_permission_mode("acceptEdits")
        await client.set_model("sonnet")
        await client.query("write permission")
        assert not result([m async for m in client.receive_response()]).permission_denials


async def main():
    for test in [
        a_prompt_is_answered,
        thinking_has_a_signature,
        a_client_sends_two_prompts,
        the_host_decides_permissions,
        the_host_interrupts_a_turn,
        hooks_of_the_host_are_called,
        mcp_servers_of_the_host_are_connected,
        the_mode_and_the_model_are_changed,
    ]:
        if os.path.exists("towpath-demo.txt"):
            os.remove("towpath-demo.txt")
        await asyncio.wait_for(test(), 30)
        print("ok", test.__name__, flush=True)


asyncio.run(main())
