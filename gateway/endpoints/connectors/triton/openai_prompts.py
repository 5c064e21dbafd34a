"""OpenAI calls as prompts for a model that takes one text and gives one.

Such a model has no chat template of its own, so messages become plain lines:

    system: You are terse.
    user: Hello
    assistant:

The text parts of a message are joined by line breaks. What such a model cannot honour, and what
would change the answer if it were left out, is refused with 400 and the name of the key. Calls that
ask for that go elsewhere (`routing.needs`); this is the second look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.types import JsonDocument
from gateway.endpoints.connectors.triton.openai_refusal import refused
from gateway.endpoints.connectors.triton.text_tensors import Sampling

DEFAULT_MAX_TOKENS = 512
"""Where the call says nothing: the backends' own default is 16, which cuts every answer short."""

MAX_CHOICES = 16  # upstream calls for one call of ours
_MAX_STOPS = 16
_NUMBERS = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)
_TEXT_PARTS = ("text", "input_text", "output_text")
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """What a document asks of a text model."""

    prompts: tuple[str, ...]
    sampling: Sampling
    n: int = 1
    echo: bool = False
    include_usage: bool = False


def ask(operation: OperationSpec, document: JsonDocument) -> PromptRequest:
    """Raises UpstreamRefused (400) with the key that cannot be honoured."""
    return _ASKS[operation](document)


def _chat(document: JsonDocument) -> PromptRequest:
    _refuse_tools(document)
    _refuse_set(document, ("logprobs", "top_logprobs", "logit_bias", "audio", "prediction"))
    if document.get("modalities") not in (None, [], ["text"]):
        raise refused("modalities", "this model writes text alone")
    _need_plain_text(document.get("response_format"), "response_format")
    lines = [_line(m, f"messages[{at}]") for at, m in enumerate(document.get("messages") or ())]
    limit = document.get("max_completion_tokens")
    key = "max_tokens" if limit is None else "max_completion_tokens"
    return PromptRequest(
        (_prompt(lines),),
        _sampling(document, document.get(key), key),
        _choices(document),
        include_usage=_include_usage(document),
    )


def _completions(document: JsonDocument) -> PromptRequest:
    if document.get("logprobs") is not None:  # 0 asks for those of the text itself
        raise refused("logprobs", "this model gives none; leave it out")
    _refuse_set(document, ("suffix", "logit_bias"))
    if document.get("best_of") not in (None, 1, document.get("n")):
        raise refused("best_of", "this model cannot rank its answers; leave it out")
    echo = document.get("echo")
    if echo not in (None, True, False):
        raise refused("echo", "must be true or false", "invalid_type")
    prompts, n = tuple(strings(document.get("prompt"), "prompt")), _choices(document)
    if len(prompts) * n > MAX_CHOICES:
        raise refused("prompt", f"at most {MAX_CHOICES} answers are written in one call")
    return PromptRequest(
        prompts,
        _sampling(document, document.get("max_tokens"), "max_tokens"),
        n,
        echo=bool(echo),
        include_usage=_include_usage(document),
    )


def _responses(document: JsonDocument) -> PromptRequest:
    _refuse_tools(document)
    _refuse_set(document, ("previous_response_id", "conversation", "prompt", "top_logprobs"))
    wording = document.get("text")
    if isinstance(wording, Mapping):
        _need_plain_text(wording.get("format"), "text.format")
    if document.get("include") not in (None, [], ["reasoning.encrypted_content"]):  # has none
        raise refused("include", "this model has nothing to include; leave it out")
    lines = []
    if (instructions := document.get("instructions")) is not None:
        lines.append(_line({"role": "system", "content": instructions}, "instructions"))
    given = document.get("input")
    if isinstance(given, str):
        lines.append(f"user: {given}")
    else:
        lines += [_item(item, f"input[{at}]") for at, item in enumerate(given or ())]
    key = "max_output_tokens"
    return PromptRequest((_prompt(lines),), _sampling(document, document.get(key), key))


_ASKS = {
    CHAT: _chat,
    COMPLETIONS: _completions,
    RESPONSES: _responses,
}


def _prompt(lines: Iterable[str]) -> str:
    return "\n".join((*lines, "assistant:"))


def _item(item: Any, where: str) -> str:
    if isinstance(item, Mapping) and item.get("type", "message") != "message":
        raise refused(where, "this model takes messages alone")
    return _line(item, where)


def _line(message: Any, where: str) -> str:
    if not isinstance(message, Mapping):
        raise refused(where, "must be a message", "invalid_type")
    if message.get("tool_calls") or message.get("function_call"):
        raise refused(f"{where}.tool_calls", "this model knows no tool calls")
    role = message.get("role")
    if role not in _ROLES:
        raise refused(f"{where}.role", f"must be one of {', '.join(_ROLES)}", "invalid_value")
    name = message.get("name")
    speaker = f"{role} ({name})" if isinstance(name, str) and name else role
    return f"{speaker}: {_content(message.get('content'), f'{where}.content')}"


def _content(content: Any, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise refused(where, "must be a string or a list of parts", "invalid_type")
    parts = []
    for at, part in enumerate(content):
        text = part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str) or part.get("type") not in _TEXT_PARTS:
            raise refused(f"{where}[{at}]", "this model takes text parts alone")
        parts.append(text)
    return "\n".join(parts)


def strings(given: Any, key: str) -> list[str]:
    """A text, or several. Raises UpstreamRefused."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts:
        raise refused(key, "must be a string or a list of strings", "invalid_type")
    if not all(isinstance(item, str) for item in texts):
        raise refused(key, "this model takes text, not token ids")
    return texts


def _refuse_tools(document: JsonDocument) -> None:
    _refuse_set(document, ("tools", "functions"))
    for key in ("tool_choice", "function_call"):
        if document.get(key) not in (None, "none", "auto"):
            raise refused(key, "this model calls no tools; say none or auto")


def _refuse_set(document: JsonDocument, keys: Iterable[str]) -> None:
    for key in keys:
        if document.get(key):
            raise refused(key, "this model does not offer it; leave it out")


def _need_plain_text(wanted: Any, where: str) -> None:
    if wanted is not None and not (isinstance(wanted, Mapping) and wanted.get("type") == "text"):
        raise refused(where, "this model writes plain text; leave it out")


def _choices(document: JsonDocument) -> int:
    n = document.get("n")
    if n is None:
        return 1
    if type(n) is not int or not 1 <= n <= MAX_CHOICES:
        raise refused("n", f"must be a whole number from 1 to {MAX_CHOICES}", "invalid_value")
    return n


def _include_usage(document: JsonDocument) -> bool:
    options = document.get("stream_options")
    return isinstance(options, Mapping) and options.get("include_usage") is True


def _sampling(document: JsonDocument, limit: Any, key: str) -> Sampling:
    if limit is not None and (type(limit) is not int or not 1 <= limit < 1 << 31):
        raise refused(key, "must be a whole number from 1 on", "invalid_value")
    seed = document.get("seed")
    if seed is not None and (type(seed) is not int or not 0 <= seed < 1 << 63):
        raise refused("seed", "must be a whole number that is not negative", "invalid_value")
    numbers = {}
    for name in _NUMBERS:
        if (value := document.get(name)) is not None:
            if type(value) not in (int, float):
                raise refused(name, "must be a number", "invalid_type")
            numbers[name] = value
    return Sampling(limit or DEFAULT_MAX_TOKENS, _stops(document.get("stop")), seed, numbers)


def _stops(stop: Any) -> tuple[str, ...]:
    texts = [stop] if isinstance(stop, str) else [] if stop is None else stop
    if (
        not isinstance(texts, list)
        or len(texts) > _MAX_STOPS
        or not all(isinstance(s, str) for s in texts)
    ):
        raise refused("stop", f"must be a string, or at most {_MAX_STOPS} of them", "invalid_type")
    return tuple(s for s in texts if s)
