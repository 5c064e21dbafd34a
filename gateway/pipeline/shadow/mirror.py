"""Live calls sent once more, to an on-prem model that is being tried, and the answers compared.

The caller has its answer by then, and nothing of the other one is returned. The copy is a call of
its own, on record, of the least priority, that may go nowhere but on-prem; only so many are under
way at once, and the rest is left out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.core import ambient
from gateway.core.deadline import Clock, Deadline
from gateway.core.errors import GatewayError
from gateway.core.reply import InferenceReply, JsonBody, OneFrame
from gateway.core.tasks import BackgroundTasks
from gateway.core.trace_context import UNTRACED
from gateway.core.types import ONPREM_ONLY, DocumentCall, InferenceRequest
from gateway.protocols import strictjson

Handle = Callable[[InferenceRequest], Awaitable[InferenceReply]]
_LEAST_URGENT: Final = 9
_CLOSE: Final = 0.9  # of words in common, or the cosine of vectors
_DEPTH: Final = 64
_LONGEST: Final = 1024 * 1024  # bytes of an answer that is compared


@dataclass(frozen=True, slots=True)
class Mirror:
    model: str  # that is being tried
    share: float  # of the live calls
    at_once: int


class Mirrors:
    def __init__(
        self,
        handle: Handle,
        mirrors: Mapping[str, Mirror],
        report: Callable[[str, str], None],
        clock: Clock,
    ) -> None:
        """`mirrors`: by the model whose calls are copied. `report` is told the model that is being
        tried, and `same`, `close`, `different`, `failed` or `left_out`."""
        self._handle, self._mirrors, self._report = handle, mirrors, report
        self._clock = clock
        self._open: Counter[str] = Counter()
        self._tasks = BackgroundTasks()

    async def handle(self, request: InferenceRequest) -> InferenceReply:
        """The live answer, untouched. Raises as the pipeline does."""
        reply = await self._handle(request)
        mirror = self._mirrors.get(request.model)
        frames = reply.frames
        if mirror is not None and isinstance(frames, OneFrame) and _drawn(mirror.share):
            frame = frames.peek()
            if isinstance(frame, JsonBody) and isinstance(request.payload, DocumentCall):
                self._begin(mirror, request, frame.body)
        return reply

    def _begin(self, mirror: Mirror, request: InferenceRequest, answer: bytes) -> None:
        if self._open[mirror.model] >= mirror.at_once:  # guard: K6.mirror-bound
            self._report(mirror.model, "left_out")
            return
        self._open[mirror.model] += 1
        budget_s = request.deadline.at_s - request.received_s
        # guard: K6.mirror-zones without zones=ONPREM_ONLY
        copy = replace(
            request,
            id=ambient.new_id(),
            recorded_id="",
            model=mirror.model,
            zones=ONPREM_ONLY,
            deadline=Deadline(self._clock() + budget_s, self._clock),
            priority=_LEAST_URGENT,
            quotas=(),
            trace=UNTRACED,
            received_s=self._clock(),
            held=None,
        )
        self._tasks.spawn(self._compare(mirror.model, copy, answer))

    async def _compare(self, model: str, copy: InferenceRequest, answer: bytes) -> None:
        try:
            reply = await self._handle(copy)
            frames = reply.frames
            other = frames.take() if isinstance(frames, OneFrame) else None
            if isinstance(other, JsonBody):
                self._report(model, agreement(answer, other.body))
            else:
                self._report(model, "failed")
        except Exception:  # noqa: BLE001 - whatever becomes of a copy, nobody waits for it
            self._report(model, "failed")
        finally:
            self._open[model] -= 1

    async def aclose(self) -> None:
        await self._tasks.aclose()


def agreement(answer: bytes, other: bytes) -> str:
    """`same`, `close` or `different`: of texts by their words, of vectors by their angle."""
    if max(len(answer), len(other)) > _LONGEST:
        return "same" if answer == other else "different"
    ours, theirs = _compared_part(answer), _compared_part(other)
    if ours == theirs:
        return "same"
    likeness = 0.0
    if isinstance(ours, str) and isinstance(theirs, str):
        likeness = _words_in_common(ours, theirs)
    elif isinstance(ours, list) and isinstance(theirs, list):
        likeness = _cosine(ours, theirs)
    return "close" if likeness >= _CLOSE else "different"


def _compared_part(answer: bytes) -> str | list[Any] | None:
    """The text or the vectors of an answer; None: it has neither."""
    try:
        document = strictjson.load_object(answer, _DEPTH)
    except GatewayError:
        return None
    if isinstance(data := document.get("data"), list):
        return [v for each in data if isinstance(each, dict) for v in _numbers(each)]
    return "\n".join(_texts(document.get("choices", document.get("output"))))


def _numbers(item: dict[str, Any]) -> list[float]:
    vector = item.get("embedding")
    return vector if isinstance(vector, list) else []


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    if not isinstance(value, dict):
        return []
    own = [
        value[key] for key in ("content", "text", "arguments") if isinstance(value.get(key), str)
    ]
    inner = [value.get(key) for key in ("message", "content", "tool_calls", "function")]
    return own + [text for each in inner for text in _texts(each)]


def _words_in_common(one: str, other: str) -> float:
    """The share of words, each as often as it is in both (Dice)."""
    ours, theirs = Counter(one.split()), Counter(other.split())
    total = ours.total() + theirs.total()
    return 2 * (ours & theirs).total() / total if total else 1.0


def _cosine(one: list[Any], other: list[Any]) -> float:
    try:
        product = sum(a * b for a, b in zip(one, other, strict=True))
        lengths = math.sqrt(sum(a * a for a in one)) * math.sqrt(sum(b * b for b in other))
    except (TypeError, ValueError):
        return 0.0
    return product / lengths if lengths else 0.0


def _drawn(share: float) -> bool:
    return int.from_bytes(ambient.random_bytes(4)) < share * (1 << 32)
