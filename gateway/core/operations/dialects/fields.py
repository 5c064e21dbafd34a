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
GEMINI: Final = "gemini"
CONVERSE: Final = "converse"
COHERE: Final = "cohere"
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
    GEMINI: {
        "messages": "contents",
        _SYSTEM: "systemInstruction",
        "max_completion_tokens": "generationConfig.maxOutputTokens",
        "temperature": "generationConfig.temperature",
        "top_p": "generationConfig.topP",
        "top_k": "generationConfig.topK",
        "n": "generationConfig.candidateCount",
        "seed": "generationConfig.seed",
        "stop": "generationConfig.stopSequences",
        "presence_penalty": "generationConfig.presencePenalty",
        "frequency_penalty": "generationConfig.frequencyPenalty",
        "logprobs": "generationConfig.responseLogprobs",
        "top_logprobs": "generationConfig.logprobs",
        "response_format": "generationConfig.responseJsonSchema",
        "reasoning_effort": "generationConfig.thinkingConfig.thinkingLevel",
        "thinking": "generationConfig.thinkingConfig",
        "tool_choice": "toolConfig.functionCallingConfig",
        "service_tier": "serviceTier",
    },
    CONVERSE: {
        _SYSTEM: "system",
        "max_completion_tokens": "inferenceConfig.maxTokens",
        "temperature": "inferenceConfig.temperature",
        "top_p": "inferenceConfig.topP",
        "stop": "inferenceConfig.stopSequences",
        "tools": "toolConfig.tools",
        "tool_choice": "toolConfig.toolChoice",
        "response_format": "outputConfig.textFormat",
        "reasoning_effort": "outputConfig.effort",
        "thinking": "additionalModelRequestFields.thinking",
        "top_k": "additionalModelRequestFields.top_k",
        "metadata": "requestMetadata",
        "service_tier": "serviceTier",
    },
    COHERE: {
        "max_completion_tokens": "max_tokens",
        "stop": "stop_sequences",
        "top_p": "p",
        "top_k": "k",
        "reasoning_effort": "thinking",
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
    names = FIELDS[front]
    return names.get(_SYSTEM, name) if turn < 0 else f"{names.get('messages', 'messages')}[{turn}]"


def renamed(front: str, provider: str, document: Mapping[str, Any]) -> list[str]:
    """The fields of a chat that go on under another name than they came, as `before>after`."""
    before, after = FIELDS[front], FIELDS[provider]
    names = [(before.get(key, key), after.get(key, key)) for key in document]
    if document["messages"][0]["role"] in ("system", "developer"):
        names.append((before.get(_SYSTEM, "messages"), after.get(_SYSTEM, "messages")))
    return [f"{old}>{new}" for old, new in names if old != new]
