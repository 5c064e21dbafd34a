"""An embeddings call for a model that turns texts into vectors, and its answer.

Parameters that cut longer texts are named as in text-embeddings-inference, NIM and Cohere
(`truncate`) or of vLLM (`truncate_prompt_tokens`); the model gets it as parameters of its request.
"""

from __future__ import annotations

import base64
import math
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.core.errors import UpstreamRefused
from gateway.core.reply import JsonBody, OneFrame
from gateway.core.types import JsonDocument, Parameter, Usage
from gateway.endpoints.connectors.triton.openai_prompts import strings
from gateway.endpoints.connectors.triton.openai_refusal import refused
from gateway.endpoints.connectors.triton.text_tensors import EmbeddedTexts
from gateway.protocols import strictjson

_MOST_TEXTS: Final = 2048
_SIDES: Final = ("NONE", "START", "END")
_REFUSED: Final = 400
_ROW: Final = re.compile(r"row (\d{1,9}): ")
_UNIT: Final = 0.01  # how far the length of a vector of length one may be off, in 16 bits, too


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """What a document asks of an embedding model."""

    texts: list[str]
    truncation: Mapping[str, Parameter]  # as the model reads it
    dimensions: int | None  # fewer than its vectors have, or as many; None: all of them
    packed: bool  # vectors in base64

    @classmethod
    def from_document(cls, document: JsonDocument) -> EmbeddingRequest:
        """Raises UpstreamRefused (400) with the key that cannot be honoured."""
        form = document.get("encoding_format")
        if form not in (None, "float", "base64"):
            raise refused("encoding_format", "must be float or base64", "invalid_value")
        dimensions = document.get("dimensions")
        if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
            raise refused("dimensions", "must be a whole number from 1 on", "invalid_value")
        texts = strings(document.get("input"), "input")
        if len(texts) > _MOST_TEXTS:
            raise refused("input", f"at most {_MOST_TEXTS} texts are embedded in one call")
        return cls(texts, _truncation(document), dimensions, form == "base64")

    def answer(self, model: str, parts: Sequence[EmbeddedTexts]) -> OneFrame:
        """Raises UpstreamRefused where more dimensions are wanted than there are."""
        vectors = [self._encoded(vector) for part in parts for vector in part.vectors]
        counts = [part.tokens for part in parts if part.tokens is not None]
        tokens = sum(counts) if len(counts) == len(parts) else None
        document = {
            "object": "list",
            "data": [
                {"object": "embedding", "index": at, "embedding": vector}
                for at, vector in enumerate(vectors)
            ],
            "model": model,
            # The shape has no other word for a model that does not count.
            "usage": {"prompt_tokens": tokens or 0, "total_tokens": tokens or 0},
        }
        usage = None if tokens is None else Usage(tokens, 0)
        return OneFrame(JsonBody(strictjson.dumps(document)), tokens, usage)

    def _encoded(self, vector: bytes) -> str | list[float]:
        if self.dimensions is not None and 4 * self.dimensions != len(vector):
            vector = _shortened(vector, self.dimensions)
        return base64.b64encode(vector).decode() if self.packed else array("f", vector).tolist()


def embedding_refusal(refusal: UpstreamRefused, first: int) -> UpstreamRefused:
    """With the place of the text in the call, where the model names a row of its batch, which
    begins with text `first`."""
    if refusal.http_status != _REFUSED or (row := _ROW.match(refusal.message)) is None:
        return refusal
    return refused(f"input[{first + int(row[1])}]", refusal.message[row.end() :], "invalid_value")


def _truncation(document: JsonDocument) -> Mapping[str, Parameter]:
    """`truncate`: a boolean, or the side that is cut off; -1 tokens are those of the model."""
    side, most = document.get("truncate"), document.get("truncate_prompt_tokens")
    if most is not None and (type(most) is not int or most < -1 or most == 0):
        raise refused("truncate_prompt_tokens", "must be -1 or a number of tokens", "invalid_value")
    parameters: dict[str, Parameter] = {}
    if side is None:
        side = most is not None
    if (word := _side(side)) != "NONE":
        parameters["truncate"] = word
    if most is not None and most > 0:
        parameters["truncate_prompt_tokens"] = most
    return parameters


def _side(given: Any) -> str:
    if isinstance(given, bool):
        return "END" if given else "NONE"
    if isinstance(given, str) and given.upper() in _SIDES:
        return given.upper()
    raise refused("truncate", "must be true, false, NONE, START or END", "invalid_value")


def _shortened(vector: bytes, dimensions: int) -> bytes:
    """The first dimensions; of length one again where the whole vector is, as OpenAI has it."""
    numbers = array("f", vector)
    if dimensions > len(numbers):
        raise refused(
            "dimensions",
            f"this model's vectors have {len(numbers)}; ask for no more",
            "invalid_value",
        )
    first = numbers[:dimensions]
    length = math.hypot(*first)
    if length and abs(math.hypot(*numbers) - 1) < _UNIT:
        first = array("f", [number / length for number in first])
    return first.tobytes()
