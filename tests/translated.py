"""A gateway with an endpoint of OpenAI's API and one of Anthropic's, for callers of other APIs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests import anthropic_api as claude
from tests import chat_api as gpt
from tests.live import LiveGateway

Document = dict[str, Any]
PROVIDERS = ("gpt", "claude")
EMAIL = "maria.keller@posteo.de"


@dataclass
class Line:
    """A gateway with an endpoint of each API."""

    gateway: LiveGateway
    gpt: gpt.ChatApi
    claude: claude.AnthropicApi
    authority: Path | None = None  # of its certificate, where it has one

    def fresh(self) -> Self:
        """The same, with nothing of an earlier test."""
        for api in (self.gpt, self.claude):
            api.requests.clear()
            api.refused.clear()
            api.left.clear()
        for model in PROVIDERS:
            self.says(model, "Line four.")
        return self

    def says(self, model: str, text: str) -> None:
        if model == "gpt":
            self.gpt.reply = lambda document: gpt.ChatReply({"content": text})
        else:
            self.claude.reply = lambda document: claude.Reply([claude.text(text)])

    def calls(self, model: str) -> None:
        """The answer is a word and the call of a tool."""
        if model == "gpt":
            message = {"content": "A moment.", "tool_calls": [gpt.function_call("trams", stop="M")]}
            self.gpt.reply = lambda document: gpt.ChatReply(message, "tool_calls")
        else:
            content = [claude.text("A moment."), claude.tool_use("trams", stop="M")]
            self.claude.reply = lambda document: claude.Reply(content, "tool_use")

    def answers_calls(self, model: str, text: str) -> None:
        """A tool is called, and once it has answered this is said."""
        self.calls(model)
        calling = self.gpt.reply if model == "gpt" else self.claude.reply

        def replied(document: Document) -> Any:
            if len(document["messages"]) == 1:
                return calling(document)
            return (
                gpt.ChatReply({"content": text})
                if model == "gpt"
                else claude.Reply([claude.text(text)])
            )

        if model == "gpt":
            self.gpt.reply = replied
        else:
            self.claude.reply = replied

    def repeats(self, model: str, size: int) -> None:
        """The answer is what was said, and a call of a tool with it; `size`: of a delta."""

        def replied(document: Document) -> Any:
            words = document["messages"][-1]["content"]
            if model == "gpt":
                call = gpt.function_call("trams", stop=words)
                return gpt.ChatReply({"content": words, "tool_calls": [call]}, piece=size)
            words = words if isinstance(words, str) else words[0]["text"]
            content = [claude.text(words), claude.tool_use("trams", stop=words)]
            return claude.Reply(content, "tool_use", piece=size)

        self.gpt.reply = self.claude.reply = replied

    def sent(self, model: str) -> list[Document]:
        return self.gpt.requests if model == "gpt" else self.claude.requests


def settings(openai: gpt.ChatApi, api: claude.AnthropicApi, scratch: Path) -> Document:
    for name, value in (("claude", claude.KEY), ("allowed", "allowed")):
        (scratch / name).write_text(value)
    there = {
        "kind": "anthropic", "zone": "cloud", "url": api.url,
        "api_key": f"${{file:{scratch / 'claude'}}}", "expected_ms": 5,
    }  # fmt: skip
    cloud = {"kind": "openai", "zone": "cloud", "url": openai.url, "expected_ms": 5}
    model = {"task": "generate", "pseudonymise": True}
    failing = ("busy", "breaking", "slow")  # whose failures take no other's calls away

    def served(endpoint: str, name: str) -> Document:
        return {
            **model,
            "served_by": [
                {"endpoint": endpoint, "model": name, "substitute": True, "price_usd": 0.001}
            ],
        }

    return {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "endpoints": {"claude": there, "gpt": cloud, **dict.fromkeys(failing, cloud)},
        "models": {
            "gpt": served("gpt", "gpt-test"),
            "claude": served("claude", "claude-test"),
            **{name: served(name, "gpt-test") for name in failing},
            "vectors": {
                "task": "embeddings", "served_by": [{"endpoint": "gpt", "model": "vectors"}],
            },
            "poems": {
                **served("gpt", "gpt-test"),
                "pseudonymise": False,
                "public": True, "public_reason": "a corpus of poems",
            },
        },
        "routing": {"policy": "static_split", "max_attempts": 1},
        "keys": {
            "allowed": {
                "key": f"${{file:{scratch / 'allowed'}}}", "tenant": "t", "pseudonymise": True,
            }
        },
    }  # fmt: skip
