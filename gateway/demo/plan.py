"""Which calls the demo makes, and when: made from a seed, before the first is sent."""

from __future__ import annotations

import enum
import itertools
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gateway.demo import texts
from gateway.demo.people import MOST_PEOPLE, crowd

Array = npt.NDArray[np.generic]


class ClientMethod(enum.Enum):
    """How a call is sent: by which client and which of its methods."""

    CHAT = "openai chat"
    CHAT_STREAM = "openai chat, streamed"
    COMPLETION = "openai completions"
    RESPONSE = "openai responses"
    EMBEDDING = "openai embeddings"
    HTTP = "tritonclient.http"
    HTTP_AIO = "tritonclient.http.aio"
    GRPC = "tritonclient.grpc"
    GRPC_AIO = "tritonclient.grpc.aio"
    GRPC_STREAM = "tritonclient.grpc.aio stream"

    @property
    def protocol(self) -> str:
        """As decision records call it."""
        if self.value.startswith("tritonclient.http"):
            return "kserve-rest"
        return "kserve-grpc" if self.value.startswith("tritonclient.grpc") else "openai"

    @property
    def client(self) -> str:
        """The package and module of it."""
        return self.value.split(" ")[0]


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call to come. `restricted` is what it is by its making, not what anybody finds."""

    at_s: float  # from the start of its phase
    phase: str
    method: ClientMethod
    model: str
    restricted: bool
    budget_ms: int | None
    request_id: str
    trace: str  # of W3C trace context: joins the call to its decision record, in every protocol
    needles: tuple[str, ...] = field(repr=False)
    text: str = field(default="", repr=False)
    tensors: dict[str, Array] = field(default_factory=dict, repr=False)
    note: str = field(default="", repr=False)  # the v2 protocol's own id of a call: free text

    @property
    def headers(self) -> dict[str, str]:
        headers = {"x-request-id": self.request_id, "traceparent": f"00-{self.trace}-{'1' * 16}-01"}
        if self.budget_ms is not None:
            headers["x-latency-budget-ms"] = str(self.budget_ms)
        return headers


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    says: str
    call_share: float
    time_share: float


PHASES = (
    Phase("calm", "on-prem has room for all", 0.18, 0.27),
    Phase("burst", "more than on-prem can take", 0.52, 0.28),
    Phase("outage", "Triton killed (kill -9)", 0.16, 0.13),
    Phase("recovery", "Triton started again", 0.14, 0.32),
)


@dataclass(frozen=True, slots=True)
class _CallKind:
    method: ClientMethod
    model: str
    weight: int
    budgets_ms: tuple[int | None, ...]


_RESTRICTED = (
    _CallKind(ClientMethod.CHAT, "scribe", 4, (None, 6000, 9000)),
    _CallKind(ClientMethod.CHAT_STREAM, "scribe", 4, (None, 6000, 9000)),
    _CallKind(ClientMethod.COMPLETION, "scribe", 2, (6000,)),
    _CallKind(ClientMethod.RESPONSE, "scribe", 1, (6000,)),
    _CallKind(ClientMethod.GRPC_STREAM, "scribe", 2, (6000,)),
    _CallKind(ClientMethod.EMBEDDING, "minilm", 3, (800, 2000)),
    _CallKind(ClientMethod.HTTP, "minilm", 2, (800, 2000)),
    _CallKind(ClientMethod.GRPC, "minilm", 2, (800, 2000)),
    _CallKind(ClientMethod.HTTP, "fraud_score", 3, (500, 1000)),
    _CallKind(ClientMethod.GRPC, "fraud_score", 3, (500, 1000)),
    _CallKind(ClientMethod.GRPC_AIO, "fraud_score", 3, (500, 1000)),
)
_CLEAR = (
    _CallKind(ClientMethod.CHAT, "scribe", 9, (1500, 2500, 4000)),
    _CallKind(ClientMethod.CHAT_STREAM, "scribe", 9, (1500, 2500, 4000)),
    _CallKind(ClientMethod.COMPLETION, "scribe", 4, (1500, 2500)),
    _CallKind(ClientMethod.RESPONSE, "scribe", 2, (2500,)),
    _CallKind(ClientMethod.GRPC_STREAM, "scribe", 3, (2000, 4000)),
    _CallKind(ClientMethod.EMBEDDING, "minilm", 4, (150, 400, 1500)),
    _CallKind(ClientMethod.HTTP, "minilm", 3, (400, 1500)),
    _CallKind(ClientMethod.HTTP_AIO, "minilm", 3, (150, 400, 1500)),
    _CallKind(ClientMethod.GRPC, "minilm", 3, (150, 400, 1500)),
    _CallKind(ClientMethod.HTTP, "image_inspection", 3, (120, 500)),
    _CallKind(ClientMethod.GRPC, "image_inspection", 3, (120, 500)),
    _CallKind(ClientMethod.GRPC_AIO, "image_inspection", 3, (120, 500)),
    _CallKind(ClientMethod.HTTP_AIO, "simple", 2, (500,)),
    _CallKind(ClientMethod.GRPC_AIO, "simple", 2, (500,)),
)
_RESTRICTED_SHARE = 0.4


def plan(seed: int, calls: int, seconds: float) -> dict[str, list[PlannedCall]]:
    """The calls of each phase in the order of their time; the same for the same arguments."""
    dice = random.Random(seed)
    maker = _Maker(dice, calls)
    counts = _shared_out(calls, [phase.call_share for phase in PHASES])
    return {
        phase.name: [
            maker.call(phase.name, at_s)
            for at_s in sorted(dice.uniform(0, seconds * phase.time_share) for _ in range(count))
        ]
        for phase, count in zip(PHASES, counts, strict=True)
    }


def _shared_out(total: int, shares: Sequence[float]) -> list[int]:
    counts = [int(total * share) for share in shares]
    counts[1] += total - sum(counts)  # what rounding leaves over joins the burst
    return counts


class _Maker:
    def __init__(self, dice: random.Random, calls: int) -> None:
        self._dice = dice
        self._markers = texts.Markers(dice)
        # Somebody else in each call, so that whoever is found in the cloud tells which call leaked.
        self._people = itertools.cycle(crowd(dice, min(calls, MOST_PEOPLE)))
        self._turn = self._alternate()

    def _alternate(self) -> Iterator[bool]:
        """Both classes in every short stretch, so that a small run has both too."""
        while True:
            stretch = [at < 10 * _RESTRICTED_SHARE for at in range(10)]
            self._dice.shuffle(stretch)
            yield from stretch

    def call(self, phase: str, at_s: float) -> PlannedCall:
        dice, restricted = self._dice, next(self._turn)
        kinds = _RESTRICTED if restricted else _CLEAR
        (kind,) = dice.choices(kinds, [kind.weight for kind in kinds])
        marker = self._markers.next()
        text, tensors = self._content(kind.model, restricted, marker)
        return PlannedCall(
            at_s=at_s,
            phase=phase,
            method=kind.method,
            model=kind.model,
            restricted=restricted,
            budget_ms=dice.choice(kind.budgets_ms),
            request_id=str(uuid.UUID(int=dice.getrandbits(128), version=4)),
            trace=f"{dice.getrandbits(128) | 1:032x}",
            needles=text.needles,
            text=text.words,
            tensors=tensors,
            note=marker,
        )

    def _content(
        self, model: str, restricted: bool, marker: str
    ) -> tuple[texts.DemoText, dict[str, Array]]:
        dice = self._dice
        if model == "fraud_score":
            features, needle = payment(dice)
            return texts.DemoText("", (marker, needle)), {"features": features}
        if model == "image_inspection":
            return texts.DemoText("", (marker,)), {"image": picture(dice)}
        if model == "simple":
            left = np.array([[dice.randrange(1000) for _ in range(16)]], dtype=np.int32)
            return texts.DemoText("", (marker,)), {"INPUT0": left, "INPUT1": left[:, ::-1].copy()}
        if restricted:
            return texts.restricted(dice, next(self._people), marker), {}
        return texts.clear(dice, marker), {}


_LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"


def payment(dice: random.Random) -> tuple[Array, str]:
    """The twelve features of a card payment, and a text that their bytes spell.

    A float32 whose bytes are letters is an everyday number: those that end in C lie from 128 to
    256, in @ from 2 to 4, in A from 8 to 16. The first three features (amount, its ratio to the
    usual, hour of day) so carry a marker that a search for text finds in binary tensors.
    """
    spelled = "".join("".join(dice.choices(_LETTERS, k=3)) + last for last in "C@A")
    first = np.frombuffer(spelled.encode(), dtype="<f4")
    rest = [
        dice.uniform(1, 3000), dice.randrange(12), dice.uniform(0, 80), dice.uniform(0, 400),
        dice.randrange(10, 4000), dice.random(), dice.randrange(2), dice.randrange(2),
        dice.randrange(2),
    ]  # fmt: skip
    row = np.concatenate([first, np.array(rest, dtype="<f4")]).astype(np.float32)
    return row.reshape(1, 12), spelled


def picture(dice: random.Random) -> Array:
    """Grey noise in the shape that the inspection model takes."""
    pixels = np.frombuffer(dice.randbytes(64 * 64), dtype=np.uint8)
    return pixels.reshape(1, 64, 64, 1)
