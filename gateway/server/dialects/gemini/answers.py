"""The answer of a chat as that of `generateContent`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.server.dialects import answers
from gateway.server.dialects.answers import END, LENGTH, REFUSED, STOPPED, TOOLS
from gateway.server.dialects.gemini import signatures

_FINISHES: Final = {
    END: "STOP", TOOLS: "STOP", STOPPED: "STOP", LENGTH: "MAX_TOKENS", REFUSED: "SAFETY",
    "pause_turn": "STOP", "model_context_window_exceeded": "MAX_TOKENS",
}  # fmt: skip


def response(body: bytes, stops: Collection[str]) -> bytes:
    """A whole answer; `stops`: the sequences that may stop it. Raises UpstreamFailed for one that
    Google's API has no words for."""
    document, choices = answers.parsed(body)
    candidates = [_candidate(choice, at, stops) for at, choice in enumerate(choices)]
    made = {"candidates": candidates, "usageMetadata": usage(document.get("usage"))}
    return strictjson.dumps(made | head(document))


def head(document: Mapping[str, Any]) -> JsonDocument:
    return {
        "modelVersion": document.get("model") or "",
        "responseId": document.get("id") or "response",
    }


def _candidate(choice: Mapping[str, Any], at: int, stops: Collection[str]) -> JsonDocument:
    answer = choice["message"]
    calls = answers.calls(answer)
    parts = [thought(block) for block in answers.thoughts(answer)]
    text, signature = answers.text(answer), signatures.googles(answer)
    if text or signature:
        parts.append(text_part(text, signature))
    for call, stated in zip(calls, answer.get("tool_calls") or (), strict=True):
        parts.append(called(call.id, call.name, call.arguments, signatures.googles(stated)))
    refusal = answer.get("refusal")
    made = candidate(index(choice, at), parts)
    made |= finish(answers.ending(choice, stops, bool(calls))[0], refusal)
    if (probabilities := logprobs(choice)) is not None:
        made["logprobsResult"] = probabilities
    return made


def index(choice: Mapping[str, Any], at: int = 0) -> int:
    stated = choice.get("index")
    return stated if type(stated) is int else at


def candidate(at: int, parts: list[JsonDocument]) -> JsonDocument:
    return {"content": {"parts": parts, "role": "model"}, "index": at}


def thought(block: Mapping[str, Any]) -> JsonDocument:
    if block.get("type") == "redacted_thinking":
        hidden = str(block.get("data") or "")
        return {"thought": True, "thoughtSignature": signatures.marked("redacted_thinking", hidden)}
    made: JsonDocument = {"thought": True, "text": block.get("thinking") or ""}
    if signature := block.get("signature"):
        made["thoughtSignature"] = signatures.marked("thinking", signature)
    return made


def text_part(text: str, signature: str = "") -> JsonDocument:
    made: JsonDocument = {"text": text}
    if signature:
        made["thoughtSignature"] = signature
    return made


def called(own: str, name: str, given: JsonDocument, signature: str = "") -> JsonDocument:
    made: JsonDocument = {"functionCall": {"id": own, "name": name, "args": given}}
    if signature:
        made["thoughtSignature"] = signature
    return made


def finish(reason: str, refusal: Any = "") -> JsonDocument:
    """Why a candidate ends; `refusal`: what the model or its provider says about that."""
    made = {"finishReason": "SAFETY" if refusal else _FINISHES[reason]}
    if refusal and isinstance(refusal, str):
        made["finishMessage"] = refusal
    return made


def usage(stated: Any) -> JsonDocument:
    """Tokens of thoughts are not among those of candidates."""
    counts = answers.counts(stated)
    given = counts.given + counts.cached + counts.stored
    made: JsonDocument = {
        "promptTokenCount": given,
        "candidatesTokenCount": max(0, counts.written - counts.thought),
        "totalTokenCount": given + max(counts.written, counts.thought),
    }
    if counts.cached:
        made["cachedContentTokenCount"] = counts.cached
    if counts.thought:
        made["thoughtsTokenCount"] = counts.thought
    return made


def logprobs(choice: Mapping[str, Any]) -> JsonDocument | None:
    stated = choice.get("logprobs")
    tokens = stated.get("content") if isinstance(stated, dict) else None
    if not isinstance(tokens, list) or not tokens:
        return None
    return {
        "chosenCandidates": [_token(token) for token in tokens],
        "topCandidates": [
            {"candidates": [_token(each) for each in token.get("top_logprobs") or ()]}
            for token in tokens
        ],
    }


def _token(token: Mapping[str, Any]) -> JsonDocument:
    return {"token": token.get("token") or "", "logProbability": token.get("logprob") or 0}
