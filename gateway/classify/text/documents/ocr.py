"""Text in pictures, by the PP-OCR models that RapidOCR brings (Apache-2.0), on the processor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidocr import RapidOCR

Box = NDArray[np.float32]
"""The four corners of a text, in pixels."""

_LEAST_SURE = 0.85
"""Scores below it are of handwriting, blurred print and drawings."""
_WIDEST = 1.3  # of a character of print, in heights of its line: a signature has few, and wide ones
_LONGEST = 2000  # pixels of a side that are read at once; the models were trained on smaller ones
_OVERLAP = 240
_SHORTEST = 400  # of a smaller picture the letters are enlarged until words fall apart


@cache
def _engine() -> RapidOCR:
    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.text_score": 0.0,
            "Global.use_cls": False,  # it turns lines of print upside down
            "Global.max_side_len": _LONGEST,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )


@dataclass(frozen=True, slots=True)
class PictureText:
    """`lines`: as they stand, from top to bottom. `doubtful`: where something is that may be text
    and is not legible."""

    lines: list[str] = field(repr=False)
    boxes: list[Box]
    doubtful: list[Box]


def read(colours: NDArray[np.uint8]) -> PictureText:
    """Of a picture in red, green and blue."""
    texts: list[tuple[Box, str]] = []
    doubtful: list[Box] = []
    missing = [(0, max(0, _SHORTEST - side)) for side in colours.shape[:2]]
    colours = np.pad(colours, (*missing, (0, 0)), "edge")
    for left, top in _corners(colours.shape[0], colours.shape[1]):
        tile = colours[top : top + _LONGEST, left : left + _LONGEST]
        for box, text, score in _texts(tile):
            box = box + np.array((left, top), np.float32)
            if _is_sure(box, text, score):
                texts.append((box, text))
            else:
                doubtful.append(box)
    return PictureText(_lines(texts), [box for box, _ in texts], doubtful)


def _is_sure(box: Box, text: str, score: float) -> bool:
    width, height = np.ptp(box, axis=0)
    return bool(score >= _LEAST_SURE and width <= _WIDEST * height * len(text))


def _corners(height: int, width: int) -> list[tuple[int, int]]:
    step = _LONGEST - _OVERLAP
    lefts = range(0, max(1, width - _OVERLAP), step)
    return [(left, top) for top in range(0, max(1, height - _OVERLAP), step) for left in lefts]


def _texts(tile: NDArray[np.uint8]) -> Iterator[tuple[Box, str, float]]:
    reply: Any = _engine()(np.ascontiguousarray(tile[:, :, ::-1]))
    if reply.boxes is not None:
        yield from zip(reply.boxes, reply.txts, reply.scores, strict=True)


def _lines(texts: list[tuple[Box, str]]) -> list[str]:
    """Texts side by side are one line, with tabs between them."""
    lines: list[tuple[float, list[tuple[float, str]]]] = []
    for box, text in sorted(texts, key=lambda one: float(one[0][:, 1].mean())):
        middle, height = float(box[:, 1].mean()), float(np.ptp(box[:, 1]))
        if not lines or middle - lines[-1][0] > height / 2:
            lines.append((middle, []))
        lines[-1][1].append((float(box[:, 0].min()), text))
    return ["\t".join(text for _, text in sorted(line)) for _, line in lines]
