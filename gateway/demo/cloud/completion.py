"""What every text endpoint shares: the choices drawn, stops, logprobs, and what they cost."""

import dataclasses
import random
import re
import zlib
from collections.abc import Sequence
from typing import Any

from gateway.demo.cloud.conditions import Conditions
from gateway.demo.cloud.documents import JsonDocument
from gateway.demo.cloud.errors import InvalidRequest, UnservedModel
from gateway.demo.cloud.models import ModelStore, SimulatedModel

# Near enough to a tokenizer for counting: words and single marks.
_TOKEN = re.compile(r"\w+|[^\w\s]")
_DEFAULT_TOKENS = 64
_MOST_TOKENS = 4096
_MOST_CHOICES = 16


def count_tokens(text: str) -> int:
    return len(_TOKEN.findall(text))


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    pieces: tuple[str, ...]
    finish_reason: str

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclasses.dataclass(frozen=True, slots=True)
class SamplingParameters:
    """The sampling parameters that the generator understands."""

    model: str
    max_tokens: int
    choices: int
    seed: int | None
    stops: tuple[str, ...]


def wanted(body: JsonDocument, *limits: str) -> SamplingParameters:
    given = [limit for name in limits if (limit := body.get(name, int)) is not None]
    max_tokens = given[0] if given else _DEFAULT_TOKENS
    if not 1 <= max_tokens <= _MOST_TOKENS:
        raise InvalidRequest(f"'{limits[0]}' must be in 1..{_MOST_TOKENS}", param=limits[0])
    choices = body.get("n", int, 1)
    if not 1 <= choices <= _MOST_CHOICES:
        raise InvalidRequest(f"'n' must be in 1..{_MOST_CHOICES}", param="n")
    stop = body.fields.get("stop")
    stops = [stop] if isinstance(stop, str) else body.get("stop", list, [])
    return SamplingParameters(
        model=body.need("model", str),
        max_tokens=max_tokens,
        choices=choices,
        seed=body.get("seed", int),
        stops=tuple(item for item in stops if isinstance(item, str) and item),
    )


class CompletionWriter:
    """Draws choices from the text model; the waiting is left to who sends them out."""

    def __init__(self, models: ModelStore, conditions: Conditions) -> None:
        self._models = models
        self._conditions = conditions

    async def model(self, name: str) -> SimulatedModel:
        model = await self._models.get(name)
        if not model.generates_text:
            raise UnservedModel(name)
        return model

    async def choices(self, prompt: str, sampling: SamplingParameters) -> list[Choice]:
        model = await self.model(sampling.model)
        # As the model does on the premises: without a seed the same prompt gets the same text.
        seed = sampling.seed if sampling.seed is not None else zlib.crc32(prompt.encode())
        drawn = []
        for number in range(sampling.choices):
            pieces = await self._models.generate(model, prompt, sampling.max_tokens, seed + number)
            reason = "length" if len(pieces) >= sampling.max_tokens else "stop"
            drawn.append(_stopped(pieces, reason, sampling.stops))
        return drawn

    def usage(self, prompt: str, choices: Sequence[Choice]) -> "TokenUsage":
        usage = TokenUsage(count_tokens(prompt), sum(len(choice.pieces) for choice in choices))
        self._conditions.charge(usage.input_tokens, usage.output_tokens)
        return usage


@dataclasses.dataclass(frozen=True, slots=True)
class TokenUsage:
    input_tokens: int
    output_tokens: int

    def as_completion(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
        }

    def as_response(self) -> dict[str, Any]:
        return {
            "input_tokens": self.input_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": self.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.input_tokens + self.output_tokens,
        }


def _stopped(pieces: list[str], reason: str, stops: Sequence[str]) -> Choice:
    text = "".join(pieces)
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    if not ends:
        return Choice(tuple(pieces), reason)
    left, choices = min(ends), []
    for piece in pieces:
        if left <= 0:
            break
        choices.append(piece[:left])
        left -= len(piece)
    return Choice(tuple(choices), "stop")


def logprob(token: str) -> float:
    """Not a probability of any model: a number that is the same each time, in its usual range."""
    return -round(random.Random(token).random() * 2, 6)


def token_logprobs(token: str, top: int) -> dict[str, Any]:
    entry = {"token": token, "logprob": logprob(token), "bytes": list(token.encode())}
    others = [
        {"token": f"{token}{number}", "logprob": logprob(token) - number, "bytes": None}
        for number in range(1, top)
    ]
    return entry | {"top_logprobs": [entry, *others] if top else []}
