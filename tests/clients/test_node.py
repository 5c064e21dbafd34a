"""The SDKs that run in Node, unmodified: each runs its checks once, and each check is a test.

`npm ci --prefix tests/clients/node` installs them; `make test` does that where npm is.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.anthropic_api import KEY, AnthropicApi, Reply, anthropic_api, text, tool_use
from tests.live import serving, wait_until

SCRIPTS = Path(__file__).parent / "node"
NODE = shutil.which("node")
HELLO = "Line four."
TRAM = {"line": 4}

pytestmark = pytest.mark.skipif(
    NODE is None or not (SCRIPTS / "node_modules").is_dir(),
    reason="needs node, and npm ci --prefix tests/clients/node",
)

OPENAI: dict[str, Any] = {
    "models": ["writer"],
    "chat": {"text": HELLO, "reason": "stop", "tokens": 12},
    "tools": ["trams", {"stop": "Main"}, "Four or seven."],
    "structured": TRAM,
    "stream": {"text": HELLO, "several": True},
    "responses": {"text": HELLO, "status": "completed", "several": True},
    "unknown_model": ["NotFoundError", 404, "model_not_found"],
    "refused": ["BadRequestError", 400],
    "retried": HELLO,
    "cancelled": "left",
}
VERCEL: dict[str, Any] = {
    "chat": {"text": HELLO, "reason": "stop", "tokens": 12},
    "tools": ["4, 7 at Main", "Four or seven."],
    "structured": TRAM,
    "stream": {"text": HELLO, "several": True},
    "streamed_tools": ["4, 7 at Main", "Four or seven."],
    "unknown_model": ["AI_APICallError", 404],
}
ANTHROPIC: dict[str, Any] = {
    "chat": {"text": HELLO, "reason": "end_turn", "tokens": 12},
    "tools": ["tool_use", "trams", {"stop": "Main"}, "Four or seven."],
    "structured": TRAM,
    "stream": {"text": HELLO, "several": True},
    "unknown_model": ["NotFoundError", 404, "not_found_error"],
    "refused": ["BadRequestError", 400],
    "retried": HELLO,
    "cancelled": "left",
}
SDKS = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "vercel chat": VERCEL,
    "vercel messages": VERCEL,
    "vercel responses": VERCEL,
}
"""The name of a script, and of the API of which it is to make use if there are several."""


@dataclass
class Provider:
    api: AnthropicApi
    url: str  # of the gateway before it


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    scratch = tmp_path_factory.mktemp("node")
    (scratch / "claude").write_text(KEY)
    (scratch / "caller").write_text("sk-caller")
    with anthropic_api() as api:
        api.reply = _replies()
        served = {"endpoint": "claude", "model": "claude-test", "substitute": True}
        document = {
            "listen": {"http_port": 0, "grpc_port": 0},
            "audit": {"directory": str(scratch / "audit")},
            "endpoints": {
                "claude": {
                    "kind": "anthropic", "zone": "cloud", "url": api.url,
                    "api_key": f"${{file:{scratch / 'claude'}}}", "expected_ms": 5,
                }
            },
            "models": {
                "writer": {"task": "generate", "served_by": [served]},
            },
            "keys": {"caller": {"key": f"${{file:{scratch / 'caller'}}}", "tenant": "t"}},
        }  # fmt: skip
        with serving(document, scratch) as gateway:
            yield Provider(api, gateway.http_url.rstrip("/"))


def _replies() -> Any:
    tries: Counter[str] = Counter()

    def reply(document: dict[str, Any]) -> Reply:
        """By the first word of the conversation."""
        first = document["messages"][0]["content"]
        asked = first if isinstance(first, str) else first[0]["text"]
        if asked == "tools" and len(document["messages"]) == 1:
            return Reply([tool_use("trams", stop="Main")], stop_reason="tool_use")
        if asked == "tools":
            return Reply([text("Four or seven.")])
        if asked == "structured":
            return Reply([text(json.dumps(TRAM))])
        if asked == "refused":
            return Reply(status=400, error="invalid_request_error")
        if asked.startswith("twice busy"):
            tries[asked] += 1
            if tries[asked] < 3:
                return Reply(status=529, error="overloaded_error")
        if asked == "held":
            return Reply([text(HELLO)], events=5, held=threading.Event())
        return Reply([text(HELLO)])

    return reply


@pytest.fixture(scope="module")
def seen(provider: Provider) -> dict[str, dict[str, Any]]:
    """What the checks of each SDK saw, or how they failed, by their names."""
    assert NODE is not None
    started = {
        sdk: subprocess.Popen(
            [NODE, f"{script}.mjs", provider.url, "sk-caller", api],
            cwd=SCRIPTS, stdout=subprocess.PIPE, text=True,
        )
        for sdk in SDKS
        for script, _, api in [sdk.partition(" ")]
    }  # fmt: skip
    found: dict[str, dict[str, Any]] = {}
    for sdk, process in started.items():
        lines = map(json.loads, process.communicate(timeout=100)[0].splitlines())
        found[sdk] = {line["name"]: line.get("saw", line.get("failed")) for line in lines}
    return found


@pytest.mark.parametrize(
    ("sdk", "check"), [(sdk, check) for sdk, checks in SDKS.items() for check in checks]
)
def test_a_check_of_an_sdk(seen: dict[str, dict[str, Any]], sdk: str, check: str) -> None:
    assert seen[sdk].get(check) == SDKS[sdk][check]


def test_the_provider_learns_that_a_caller_left(
    seen: dict[str, dict[str, Any]], provider: Provider
) -> None:
    wait_until(provider.api.left.is_set, 10)


def test_the_provider_refused_nothing(seen: dict[str, dict[str, Any]], provider: Provider) -> None:
    assert not provider.api.refused
