"""The fields of a chat in each API that is translated: by their names there, where they differ.

A front or a provider of another API adds its table to `FIELDS`. Errors name the caller's own fields
by it, and the header `x-spillway-translation` says what was renamed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

CHAT: Final = "chat"
MESSAGES: Final = "messages"
_SYSTEM: Final = "messages[system]"  # instructions, where they are no messages
FIELDS: Final[dict[str, Mapping[str, str]]] = {
    CHAT: {},
    MESSAGES: {
        "max_completion_tokens": "max_tokens",
        "stop": "stop_sequences",
        "user": "metadata.user_id",
        "safety_identifier": "metadata.user_id",
        "response_format": "output_config.format",
        "reasoning_effort": "output_config.effort",
        "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
        _SYSTEM: "system",
    },
}
"""By the API, what it calls a field of a chat."""
_MESSAGE: Final = re.compile(r"messages\[(\d+)\]")


def callers_field(front: str, name: str, turns: Sequence[int]) -> str:
    """What the caller's own API calls a field of the document. `turns`: of each message there, the
    caller's message; -1: none, as instructions are a field by themselves."""
    if (match := _MESSAGE.match(name)) is None:
        return FIELDS[front].get(name, name)
    at = int(match[1])
    turn = turns[at] if at < len(turns) else -1
    return "system" if turn < 0 else f"messages[{turn}]"


def renamed(front: str, provider: str, document: Mapping[str, Any]) -> list[str]:
    """The fields of a chat that go on under another name than they came, as `before>after`."""
    before, after = FIELDS[front], FIELDS[provider]
    names = [(before.get(key, key), after.get(key, key)) for key in document]
    if document["messages"][0]["role"] in ("system", "developer"):
        names.append((before.get(_SYSTEM, "messages"), after.get(_SYSTEM, "messages")))
    return [f"{old}>{new}" for old, new in names if old != new]
