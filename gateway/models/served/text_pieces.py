"""Texts as the pieces of a tokenizer: counted, and cut only where a call asks for it.

Every version that takes text carries a copy of this file: `spillway models build` puts one there,
`python models/build.py` those of models/.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer

COUNTS = "num_input_tokens"
"""The output that tells the pieces of each row, those that frame a text among them."""
_SIDES = {"END": "right", "START": "left"}


@dataclass(frozen=True, slots=True)
class Truncation:
    """What a call says of texts that are too long, in the parameters of its request."""

    side: str = ""  # END or START of a text is cut off; empty: a longer text is refused
    most: int | None = None  # pieces; None: as many as the model takes

    @classmethod
    def from_request(cls, request: Any) -> Truncation:
        """`request`: of Triton's Python backend. Raises ValueError."""
        parameters = json.loads(request.parameters() or "{}")
        side, most = parameters.get("truncate", "NONE"), parameters.get("truncate_prompt_tokens")
        if side not in (*_SIDES, "NONE"):
            raise ValueError("truncate must be NONE, START or END")
        if most is not None and (type(most) is not int or most < 1):
            raise ValueError("truncate_prompt_tokens must be a number from 1 on")
        return cls("" if side == "NONE" else side, most)


REFUSING = Truncation()


def truncations(requests: Sequence[Any], rows: Sequence[int]) -> list[Truncation]:
    """Of each row, where each request has so many. Raises ValueError."""
    each = map(Truncation.from_request, requests)
    return [one for one, count in zip(each, rows, strict=True) for _ in range(count)]


class TextPieces:
    """The tokenizer of a model that takes `most` pieces of a text."""

    def __init__(self, tokenizer: Path, most: int) -> None:
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self.pad_id = _pad_id(self._tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._most = most

    def encoded(
        self, texts: Sequence[str], truncations: Sequence[Truncation] = ()
    ) -> list[Encoding]:
        """`truncations`: of each text; none: all are refused that are too long. Raises ValueError
        with the number of pieces; never with a text."""
        pieces = self._tokenizer.encode_batch(list(texts))
        for row, encoding in enumerate(pieces):
            truncation = truncations[row] if truncations else REFUSING
            most = min(self._most, truncation.most or self._most)
            if len(encoding) <= most:
                continue
            if not truncation.side:
                raise ValueError(
                    f"row {row}: the text has {len(encoding)} tokens, and this model takes {most}; "
                    "shorten it, or have it cut by truncate: END"
                )
            pieces[row] = self._cut(texts[row], most, _SIDES[truncation.side])
        return pieces

    def _cut(self, text: str, most: int, side: str) -> Encoding:
        self._tokenizer.enable_truncation(most, direction=side)
        try:
            return self._tokenizer.encode(text)
        finally:
            self._tokenizer.no_truncation()


def counts(pieces: Sequence[Encoding]) -> npt.NDArray[np.int32]:
    """A column: the value of COUNTS."""
    return np.array([[len(encoding)] for encoding in pieces], np.int32)


def _pad_id(tokenizer: Tokenizer) -> int:
    """0 where it has no token for it."""
    names = ((tokenizer.padding or {}).get("pad_token"), "[PAD]", "<pad>")
    known = (tokenizer.token_to_id(name) for name in names if name)
    return next((number for number in known if number is not None), 0)
