"""An answer of Google's `generateContent` as a chat completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.core import ambient
from gateway.core.deferred_error import DeferredError
from gateway.core.errors import MalformedBody, UpstreamFailed
from gateway.core.operations.dialects.gemini import SIGNATURE
from gateway.core.types import JsonDocument
from gateway.endpoints.connectors.openai import failures
from gateway.endpoints.connectors.openai.dialects.completions import (
    broken_off,
    count,
    head,
    unknown_block,
)
from gateway.endpoints.connectors.openai.words import ProviderWords
from gateway.protocols import strictjson

FINISHES: Final = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
         "ESCALATION", "PUP_LIMITED_DISABLED", "MODEL_ARMOR", "IMAGE_SAFETY",
         "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
        "content_filter",
    ),
}  # fmt: skip
"""Why an answer ends, in either dialect."""
_BROKEN: Final = frozenset(
    ("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL",
     "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE")
)  # fmt: skip
"""Ends of what is no answer: the model has written what cannot be read."""
BLOCKED: Final = "content_filter"


def completion(body: bytes, words: ProviderWords, model: str) -> JsonDocument:
    """Raises UpstreamError for what is no answer."""
    try:
        document = strictjson.load_object(body)
    except MalformedBody:
        document = {}
    if (failure := failures.in_document(document, words)) is not None:
        failed, failure = DeferredError(failure), None
        raise failed.again()
    choices = [_choice(at, each) for at, each in enumerate(candidates(document))]
    if (refused := blocked(document)) is not None:
        message = {"role": "assistant", "content": None, "refusal": refused or None}
        choices = [
            {"index": 0, "message": message, "logprobs": None, "finish_reason": BLOCKED}
        ]  # fmt: skip
    if not choices:
        raise UpstreamFailed("the endpoint answered with something that is no message")
    return {
        **head(
            "chat.completion", document.get("responseId"), document.get("modelVersion") or model
        ),
        "choices": choices,
        "usage": usage_document(document.get("usageMetadata")),
    }


def candidates(document: Mapping[str, Any]) -> list[Any]:
    stated = document.get("candidates")
    return stated if isinstance(stated, list) else []


def blocked(document: Mapping[str, Any]) -> str | None:
    """What is said of a call that the endpoint has not let through to its model; None: it has."""
    feedback = document.get("promptFeedback")
    if not isinstance(feedback, dict) or not feedback.get("blockReason"):
        return None
    message = feedback.get("blockReasonMessage")
    return message if isinstance(message, str) else ""


def finish(reason: Any, called: bool) -> str:
    """A reason that nobody knows ends the answer as any other. Raises UpstreamFailed where it is
    the reason of no answer."""
    named = reason if isinstance(reason, str) else ""
    if named in _BROKEN:  # guard: S16.broken-answer
        raise broken_off()
    known = FINISHES.get(named, "stop")
    return "tool_calls" if called and known == "stop" else known


def usage_document(usage: Any) -> JsonDocument:
    """Tokens of thoughts are not among those of candidates there, nor results of tools of the
    endpoint's own among those of the prompt."""
    counts = usage if isinstance(usage, dict) else {}
    thought = count(counts, "thoughtsTokenCount")
    given = count(counts, "promptTokenCount") + count(counts, "toolUsePromptTokenCount")
    written = count(counts, "candidatesTokenCount") + thought
    return {
        "prompt_tokens": given,
        "completion_tokens": written,
        "total_tokens": given + written,
        "prompt_tokens_details": {"cached_tokens": count(counts, "cachedContentTokenCount")},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


class Pieces:
    """What the parts of a candidate say, as far as they were read."""

    __slots__ = ("calls", "signature", "text", "thoughts")

    def __init__(self, candidate: Any) -> None:
        """Raises UpstreamFailed for a part that a chat has no words for."""
        self.text = self.thoughts = ""
        self.signature: str | None = None
        self.calls: list[JsonDocument] = []
        content = candidate.get("content") if isinstance(candidate, dict) else None
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            self._read(part)

    def _read(self, part: Any) -> None:
        match part:
            case {"functionCall": {"name": str(name), **rest}}:
                self.calls.append(_call(name, rest, part.get("thoughtSignature")))
            case {"text": str(text), "thought": True}:
                self.thoughts += text
            case {"text": str(text)}:
                self.text += text
                self.signature = part.get("thoughtSignature") or self.signature
            case {"thoughtSignature": str(signature), **rest} if not rest or rest == {
                "thought": True
            }:
                self.signature = signature
            case _:
                raise unknown_block()

    def spoken(self) -> JsonDocument:
        """The fields of a message beside its content."""
        made: JsonDocument = {}
        if self.thoughts:
            made["reasoning_content"] = self.thoughts
        if self.calls:
            made["tool_calls"] = self.calls
        if self.signature:
            made["extra_content"] = signed(self.signature)
        return made


def _choice(at: int, candidate: Any) -> JsonDocument:
    if not isinstance(candidate, dict):
        raise unknown_block()
    pieces = Pieces(candidate)
    reason = finish(candidate.get("finishReason"), bool(pieces.calls))
    refused = refusal(candidate, reason)
    message = {"role": "assistant", "content": pieces.text or None, "refusal": refused}
    return {
        "index": index(candidate, at),
        "message": message | pieces.spoken(),
        "logprobs": logprobs(candidate),
        "finish_reason": reason,
    }


def refusal(candidate: Mapping[str, Any], reason: str) -> str | None:
    """What an answer that a filter has ended says about that."""
    message = candidate.get("finishMessage") if reason == BLOCKED else None
    return message if isinstance(message, str) else None


def index(candidate: Mapping[str, Any], at: int) -> int:
    """Of a candidate that stands at this place."""
    stated = candidate.get("index")
    return stated if type(stated) is int else at


def _call(name: str, rest: Mapping[Any, Any], signature: Any) -> JsonDocument:
    """Not every version of the API has ids for calls."""
    given = rest.get("args")
    if not isinstance(given, dict | None) or rest.get("partialArgs") or rest.get("willContinue"):
        raise unknown_block()
    made: JsonDocument = {
        "id": rest.get("id") or f"call_{ambient.new_id()}",
        "type": "function",
        "function": {"name": name, "arguments": strictjson.dumps(given or {}).decode()},
    }
    if isinstance(signature, str):
        made["extra_content"] = signed(signature)
    return made


def signed(signature: str) -> JsonDocument:
    return {"google": {SIGNATURE: signature}}


def logprobs(candidate: Mapping[str, Any]) -> JsonDocument | None:
    result = candidate.get("logprobsResult")
    chosen = result.get("chosenCandidates") if isinstance(result, dict) else None
    if not isinstance(chosen, list):
        return None
    tops = result.get("topCandidates") if isinstance(result, dict) else None
    listed = tops if isinstance(tops, list) else []
    content = []
    for at, token in enumerate(chosen):
        top = listed[at].get("candidates") if at < len(listed) else None
        shown = [_logprob(each) for each in top] if isinstance(top, list) else []
        content.append({**_logprob(token), "top_logprobs": shown})
    return {"content": content, "refusal": None}


def _logprob(token: Any) -> JsonDocument:
    match token:
        case {"token": str(text), "logProbability": float() | int() as probability}:
            return {"token": text, "logprob": probability, "bytes": list(text.encode())}
    raise unknown_block()
