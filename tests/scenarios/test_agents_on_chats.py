"""Agents that speak Responses, at endpoints that have chats alone: openai-agents, pydantic-ai and
langchain, unmodified, through a real gateway."""

from __future__ import annotations

import asyncio
import functools
import json
import operator
from typing import Any

import agents
import openai
import pytest
from agents.models.openai_responses import OpenAIResponsesModel
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.openai import OpenAIResponsesModel as PydanticResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.anthropic_api import Reply as ClaudeReply
from tests.anthropic_api import text as claude_text
from tests.anthropic_api import tool_use as claude_call
from tests.chat_only_api import Reply, call
from tests.scenarios.test_responses_as_chats import (  # the same gateway
    HELLO,
    THOUGHT,
    Town,
    started,
    town,
)

__all__ = ["started", "town"]
Document = dict[str, Any]
MODELS = pytest.mark.parametrize("model", ["writer", "claude"])


class Tram(BaseModel):
    line: int


def calls_then_says(town: Town, last: str = "Take line 4.", thinks: bool = True) -> None:
    """A function, with a thought before it, until its output is there."""
    thoughts = [THOUGHT] if thinks else []

    def chats(document: Document) -> Reply:
        if document["messages"][-1]["role"] == "tool":
            return Reply(last, "Now I know.")
        return Reply(None, "Hm.", [call("trams", stop="Main")], finish="tool_calls")

    def claude(document: Document) -> ClaudeReply:
        content = document["messages"][-1]["content"]
        if isinstance(content, list) and content[0]["type"] == "tool_result":
            return ClaudeReply([*thoughts, claude_text(last)])
        return ClaudeReply([*thoughts, claude_call("trams", stop="Main")], "tool_use")

    town.chats.reply, town.claude.reply = chats, claude


def sent(town: Town, model: str) -> str:
    """The last request."""
    assert town.chats.refused == town.claude.refused == []
    return json.dumps((town.chats if model == "writer" else town.claude).requests[-1])


def _trams(stop: str) -> str:
    """The trams at a stop."""
    return f"4 and 7 at {stop}"


# openai-agents parses annotations that are texts, in several threads at once: CPython before 3.11.5
# fails then (gh-106905)
_trams.__annotations__ = {"stop": str, "return": str}
trams = agents.function_tool(_trams, name_override="trams")


def agent(client: openai.AsyncOpenAI, model: str, **more: Any) -> agents.Agent[Any]:
    made = OpenAIResponsesModel(model=model, openai_client=client)
    return agents.Agent(name="Guide", instructions="Help.", model=made, tools=[trams], **more)


@MODELS
@pytest.mark.parametrize("streamed", [False, True])
def test_an_agent_calls_a_tool_and_goes_on(town: Town, model: str, streamed: bool) -> None:
    calls_then_says(town)

    async def main() -> Any:
        async with client_of(town) as client:
            guide = agent(client, model)
            if not streamed:
                return await agents.Runner.run(guide, HELLO)
            run = agents.Runner.run_streamed(guide, HELLO)
            kinds = [event.type async for event in run.stream_events()]
            assert "raw_response_event" in kinds
            return run

    result = asyncio.run(main())
    assert result.final_output == "Take line 4."
    assert "4 and 7 at Main" in sent(town, model)
    assert THOUGHT["signature"] in sent(town, model) or model == "writer"


def client_of(town: Town) -> openai.AsyncOpenAI:
    agents.set_tracing_disabled(True)
    return openai.AsyncOpenAI(base_url=str(town.client.base_url), api_key="allowed", max_retries=0)


@MODELS
def test_an_agent_hands_over_and_answers_by_a_schema(town: Town, model: str) -> None:
    name = "transfer_to_guide"
    handed = {"type": "function", "id": "call_9", "function": {"name": name, "arguments": "{}"}}
    answered = '{"line": 4}'

    def chats(document: Document) -> Reply:
        last = document["messages"][-1]
        return Reply(answered) if last["role"] == "tool" else Reply(None, calls=[handed])

    def claude(document: Document) -> ClaudeReply:
        if isinstance(document["messages"][-1]["content"], str):
            return ClaudeReply([claude_call(name, "call_9")], "tool_use")
        return ClaudeReply([claude_text(answered)])

    town.chats.reply, town.claude.reply = chats, claude

    async def main() -> Any:
        async with client_of(town) as client:
            guide = agent(client, model, output_type=Tram)
            desk = agents.Agent(name="Desk", model=guide.model, handoffs=[guide])
            return await agents.Runner.run(desk, HELLO)

    result = asyncio.run(main())
    assert result.final_output == Tram(line=4)
    assert result.last_agent.name == "Guide"


@MODELS
@pytest.mark.parametrize("kind", [PydanticResponsesModel, OpenAIChatModel])
def test_pydantic_ai_calls_tools_and_answers_by_a_schema(town: Town, model: str, kind: Any) -> None:
    """It sends signatures back where its profile of the model says that there are some."""
    signs = kind is PydanticResponsesModel
    calls_then_says(town, thinks=signs)
    profile: Any = {"openai_supports_encrypted_reasoning_content": True} if signs else None

    async def main() -> tuple[str, str, Tram]:
        async with client_of(town) as client:
            provider = OpenAIProvider(openai_client=client)
            made = kind(model, provider=provider, profile=profile)
            guide = Agent(made, instructions="Help.")

            @guide.tool_plain(name="trams")
            def _trams(stop: str) -> str:
                return f"4 and 7 at {stop}"

            whole = await guide.run(HELLO)
            async with guide.run_stream("And now?", message_history=whole.all_messages()) as run:
                streamed = await run.get_output()
            town.chats.reply = lambda document: Reply(
                None, calls=[call("final_result", line=4)], finish="tool_calls"
            )
            town.claude.reply = lambda document: ClaudeReply(
                [claude_call("final_result", line=4)], "tool_use"
            )
            parsed = await Agent(made, output_type=Tram).run(HELLO)
            return whole.output, streamed, parsed.output

    assert asyncio.run(main()) == ("Take line 4.", "Take line 4.", Tram(line=4))
    assert town.chats.refused == town.claude.refused == []
    if signs and model == "claude":
        assert THOUGHT["signature"] in json.dumps(town.claude.requests[-2])


@tool("trams")
def trams_of(stop: str) -> str:
    """The trams at a stop."""
    return f"4 and 7 at {stop}"


@MODELS
@pytest.mark.parametrize("version", ["v0", "responses/v1"])
def test_langchain_calls_a_tool_and_goes_on(town: Town, model: str, version: Any) -> None:
    calls_then_says(town)
    chat = ChatOpenAI(
        model=model, base_url=str(town.client.base_url), api_key="allowed", max_retries=0,
        use_responses_api=True, output_version=version,
    )  # fmt: skip
    guide = chat.bind_tools([trams_of])
    for streamed in (False, True):
        messages: list[Any] = [("user", HELLO)]
        for _ in range(2):
            if streamed:
                answer = functools.reduce(operator.add, guide.stream(messages))
            else:
                answer = guide.invoke(messages)
            messages.append(answer)
            messages += [trams_of.invoke(each) for each in answer.tool_calls]
        assert answer.text == "Take line 4."
        assert "4 and 7 at Main" in sent(town, model)
    town.chats.reply = lambda document: Reply('{"line": 4}')
    town.claude.reply = lambda document: ClaudeReply([claude_text('{"line": 4}')])
    assert chat.with_structured_output(Tram, method="json_schema").invoke(HELLO) == Tram(line=4)
