"""Drives the agent at $ACP_AGENT with the Python SDK, whose models check every message.

usage: client.py CASE...
"""

import asyncio
import json
import os
import re
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import acp
from acp import schema

PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Editor(acp.Client):
    """A client that remembers what it is told, and answers as it was set up to."""

    def __init__(self, choice="allow_once"):
        self.choice = choice
        self.updates = []
        self.asked = []
        self.questions = []
        self.answers = {}
        self.changed = asyncio.Condition()

    async def tell(self):
        async with self.changed:
            self.changed.notify_all()

    async def until(self, condition):
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(condition), 60)

    async def request_permission(self, session_id, tool_call, options, **more):
        self.asked.append((tool_call, options))
        await self.tell()
        if self.choice is None:
            await asyncio.Event().wait()
        if callable(self.choice):
            return await self.choice(session_id)
        chosen = next(it for it in options if it.kind == self.choice)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, message, mode, **more):
        self.questions.append((message, mode))
        fields = mode.requested_schema.properties
        content = {name: answer(field) for name, field in fields.items() if not name.endswith("_custom")}
        self.answers.update(content)
        return schema.AcceptElicitationResponse(action="accept", content=content)

    async def session_update(self, session_id, update, **more):
        self.updates.append(update)
        await self.tell()

    async def ext_notification(self, method, params):
        pass

    async def ext_method(self, method, params):
        raise acp.RequestError.method_not_found(method)

    def kinds(self):
        return [it.session_update for it in self.updates]

    def text(self, kind="agent_message_chunk"):
        chunks = (it for it in self.updates if it.session_update == kind)
        return "".join(it.content.text for it in chunks if it.content.type == "text")

    def statuses(self):
        """The states that each tool call went through."""
        states = {}
        for it in self.updates:
            if it.session_update in ("tool_call", "tool_call_update") and it.status is not None:
                states.setdefault(it.tool_call_id, []).append(it.status)
        return list(states.values())


def answer(field):
    """The last of the offered answers."""
    field = getattr(field, "root", field)
    choices = getattr(field, "one_of", None) or getattr(getattr(field, "items", None), "any_of", None)
    last = choices[-1].const if choices else "something else"
    return [last] if field.type == "array" else last


@asynccontextmanager
async def connect(editor, stable_only=False, **capabilities):
    command = os.environ["ACP_AGENT"]
    # The SDK counts questions among what is not stable yet, and else refuses them.
    unstable = not stable_only
    spawned = acp.spawn_agent_process(editor, command, env=dict(os.environ), use_unstable_protocol=unstable)
    async with spawned as (agent, process):
        said = await agent.initialize(
            protocol_version=1,
            client_capabilities=schema.ClientCapabilities(**capabilities),
            client_info=schema.Implementation(name="python-editor", version="1"),
        )
        assert said.protocol_version == 1, said
        agent.said = said
        yield agent
    assert process.returncode == 0, f"the agent ended with {process.returncode}"


async def new(agent):
    return (await agent.new_session(cwd=os.getcwd(), mcp_servers=[])).session_id


async def say(agent, session, *blocks):
    blocks = [acp.text_block(it) if isinstance(it, str) else it for it in blocks]
    answer = await asyncio.wait_for(agent.prompt(session_id=session, prompt=blocks), 40)
    return answer.stop_reason


def same(found, expected):
    assert found == expected, f"{found!r} instead of {expected!r}"


async def text():
    editor = Editor()
    async with connect(editor) as agent:
        session = await new(agent)
        same(await say(agent, session, "say hello"), "end_turn")
        same(editor.text(), "Hello from the model")


async def allow():
    editor = Editor()
    async with connect(editor) as agent:
        session = await new(agent)
        same(await say(agent, session, "make a file"), "end_turn")
        same(len(editor.asked), 1)
        assert Path("a.made").exists()
        states = editor.statuses()
        assert len(states) == 1 and states[0][-1] == "completed", states
        assert editor.text().endswith("Made it."), editor.text()
        Path("a.made").unlink()


async def deny():
    editor = Editor("reject_once")
    async with connect(editor) as agent:
        session = await new(agent)
        same(await say(agent, session, "make no file"), "end_turn")
        assert not Path("no.made").exists()
        states = editor.statuses()
        assert len(states) == 1 and states[0][-1] == "failed", states


async def options():
    """What may be chosen says how far it reaches."""
    editor = Editor("reject_once")
    async with connect(editor) as agent:
        session = await new(agent)
        await say(agent, session, "make no file")
        call, offered = editor.asked[0]
        kinds = [it.kind for it in offered]
        assert "allow_once" in kinds and "reject_once" in kinds, kinds
        assert len({it.option_id for it in offered}) == len(offered), offered
        assert len({it.name for it in offered}) == len(offered), offered
        assert "touch no.made" in f"{call.title} {call.raw_input}", call


async def cancel():
    editor = Editor()
    async with connect(editor) as agent:
        session = await new(agent)
        turn = asyncio.create_task(say(agent, session, "count slowly"))
        await editor.until(lambda: editor.text())
        await agent.cancel(session_id=session)
        same(await turn, "cancelled")
        same(await say(agent, session, "say hello"), "end_turn")
        assert editor.text().endswith("Hello from the model"), editor.text()


async def cancel_request():
    """The turn is cancelled while the client is asked."""

    async def refuse(session):
        await agent.cancel(session_id=session)
        outcome = schema.DeniedOutcome(outcome="cancelled")
        return schema.RequestPermissionResponse(outcome=outcome)

    editor = Editor(refuse)
    async with connect(editor) as agent:
        session = await new(agent)
        same(await say(agent, session, "make late file"), "cancelled")
        assert not Path("late.made").exists()
        same(await say(agent, session, "say hello"), "end_turn")


async def load():
    first = Editor()
    async with connect(first) as agent:
        session = await new(agent)
        await say(agent, session, "say hello")
        await say(agent, session, "make a file")
    second = Editor()
    async with connect(second) as agent:
        assert agent.said.agent_capabilities.load_session
        await agent.load_session(cwd=os.getcwd(), session_id=session, mcp_servers=[])
        same(second.text("user_message_chunk"), "say hellomake a file")
        same(second.text(), first.text())
        same([it[-1] for it in second.statuses()], ["completed"])
        same(len(second.asked), 0)
        same(await say(agent, session, "say hello"), "end_turn")
        same(second.text(), first.text() + "Hello from the model")
    Path("a.made").unlink()
    third = Editor()
    async with connect(third) as agent:
        await agent.resume_session(cwd=os.getcwd(), session_id=session, mcp_servers=[])
        same(third.text("user_message_chunk"), "")
        same(await say(agent, session, "say hello"), "end_turn")
        same(third.text(), "Hello from the model")


async def sessions():
    """Sessions are listed, switched and closed."""
    editor = Editor()
    async with connect(editor) as agent:
        made = await agent.new_session(cwd=os.getcwd(), mcp_servers=[])
        await say(agent, made.session_id, "say hello")
        listed = await agent.list_sessions(cwd=os.getcwd())
        mine = [it for it in listed.sessions if it.session_id == made.session_id]
        assert len(mine) == 1 and mine[0].cwd == os.getcwd(), listed
        elsewhere = await agent.list_sessions(cwd="/nowhere")
        same(elsewhere.sessions, [])
        modes = [it.id for it in made.modes.available_modes]
        other = next(it for it in ("acceptEdits", "plan") if it in modes and it != made.modes.current_mode_id)
        await agent.set_session_mode(session_id=made.session_id, mode_id=other)
        await editor.until(lambda: "current_mode_update" in editor.kinds() or "config_option_update" in editor.kinds())
        await agent.close_session(session_id=made.session_id)
        try:
            await agent.load_session(cwd=os.getcwd(), session_id="no-such-session", mcp_servers=[])
        except acp.RequestError as error:
            same(error.code, -32002)
        else:
            raise AssertionError("an unknown session was loaded")


async def image():
    editor = Editor()
    async with connect(editor) as agent:
        assert agent.said.agent_capabilities.prompt_capabilities.image
        session = await new(agent)
        same(await say(agent, session, "look at this", acp.image_block(PICTURE, "image/png")), "end_turn")
        same(editor.text(), "A small picture")


async def resource():
    editor = Editor()
    async with connect(editor) as agent:
        assert agent.said.agent_capabilities.prompt_capabilities.embedded_context
        session = await new(agent)
        content = acp.embedded_text_resource("file:///notes.txt", "remember the milk")
        same(await say(agent, session, "say hello", acp.resource_block(content)), "end_turn")


async def question():
    editor = Editor()
    form = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
    async with connect(editor, elicitation=form) as agent:
        session = await new(agent)
        same(await say(agent, session, "which one"), "end_turn")
        same(len(editor.questions), 1)
        assert "SQLite" in editor.answers.values(), editor.answers


async def question_as_permission(**capabilities):
    """A client without forms is offered the answers as options."""

    async def second(session):
        _, offered = editor.asked[-1]
        chosen = next(it for it in offered if "SQLite" in it.name)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    editor = Editor(second)
    async with connect(editor, stable_only=True, **capabilities) as agent:
        session = await new(agent)
        same(await say(agent, session, "which one"), "end_turn")
        same(len(editor.asked), 1)


async def question_refused():
    """So is a client that says that it has forms and then does not know them."""
    form = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
    await question_as_permission(elicitation=form)


async def plan():
    editor = Editor()
    async with connect(editor) as agent:
        made = await agent.new_session(cwd=os.getcwd(), mcp_servers=[])
        await agent.set_session_mode(session_id=made.session_id, mode_id="plan")
        same(await say(agent, made.session_id, "plan it"), "end_turn")
        call, _ = editor.asked[0]
        same(call.kind, "switch_mode")
        # What is asked replaces what was said of the call before.
        calls = [it for it in editor.updates if it.session_update == "tool_call"]
        shown = calls[0].content if call.content is None else call.content
        assert any("Write the queries" in it.content.text for it in shown), call


async def long_answer():
    """The SDK reads lines of at most 64 KiB."""
    editor = Editor()
    async with connect(editor) as agent:
        session = await new(agent)
        same(await say(agent, session, "long answer"), "end_turn")
        same(editor.text().count("towpath "), 40000)
    again = Editor()
    async with connect(again) as agent:
        await agent.load_session(cwd=os.getcwd(), session_id=session, mcp_servers=[])
        same(again.text().count("towpath "), 40000)


async def long_output():
    editor = Editor()
    async with connect(editor) as agent:
        session = await new(agent)
        same(await say(agent, session, "long output"), "end_turn")
        same([it[-1] for it in editor.statuses()], ["completed"])
    again = Editor()
    async with connect(again) as agent:
        await agent.load_session(cwd=os.getcwd(), session_id=session, mcp_servers=[])
        same([it[-1] for it in again.statuses()], ["completed"])


async def failure():
    """An error of the model is an error of the prompt, and the session goes on."""
    editor = Editor()
    async with connect(editor) as agent:
        session = await new(agent)
        try:
            await say(agent, session, "fail please")
        except acp.RequestError as error:
            assert error.code < 0, error
        else:
            raise AssertionError("the prompt succeeded")
        same(await say(agent, session, "say hello"), "end_turn")


async def view():
    """An editor that shows $SESSION, and says what it shows as `view-page.mjs` does."""
    settled = asyncio.Event()

    async def choose(session):
        print("asked", flush=True)
        line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        if line.strip() != "answer":
            await settled.wait()
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        chosen = next(it for it in editor.asked[-1][1] if it.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    editor = Editor(choose)
    async with connect(editor) as agent:
        await agent.load_session(cwd=os.getcwd(), session_id=os.environ["SESSION"], mcp_servers=[])
        for number in range(1, int(os.environ["ROUNDS"]) + 1):
            settled.clear()
            await editor.until(lambda: f"Round {number} done." in editor.text())
            settled.set()
            print("settled", flush=True)
        print(json.dumps(re.findall(r"Round \d done\.", editor.text())), flush=True)


async def main():
    failed = []
    for name in sys.argv[1:]:
        start = asyncio.get_running_loop().time()
        try:
            await asyncio.wait_for(globals()[name](), 170)
        except Exception as error:
            failed.append(name)
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            if os.environ.get("TRACE"):
                import traceback

                traceback.print_exc()
        if name != "view":
            print(f"{name}: {asyncio.get_running_loop().time() - start:.1f} s")
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


asyncio.run(main())
