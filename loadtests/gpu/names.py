"""The names model at several texts at once: its graph alone, and the reading of texts whole.

The gateway reads names on the processor, or asks a Triton that may have a card. Here both run in
this process: what differs is the graph alone, so the words are cut and looked up alike.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from gateway.classify.names.model.card import WEIGHTS
from gateway.classify.names.model.tagger import OnnxModel, Tagger, TaggerModel, load_features
from gateway.classify.names.model.words import TextWords, cut
from gateway.endpoints.triton import cuda_libraries
from gateway.models.served.ort_session import CUDA as CUDA_PROVIDER
from gateway.models.served.ort_session import OrtSession, usable_cores
from loadtests.gpu import Row
from loadtests.gpu.ways import CPU, CUDA, NO_CARD, card

_ROOT = Path(__file__).resolve().parents[2] / "models/names"
_WARM_RUNS = 3


def rows(rounds: int, seconds: float, counts: Sequence[int]) -> Iterator[Row]:
    """`counts`: texts at once."""
    models: dict[str, TaggerModel] = {
        CPU: OnnxModel(WEIGHTS / "first.onnx", threads=usable_cores())
    }
    absent = _add_cuda(models)
    features = load_features()
    for count in counts:
        cuts = [cut(text) for text in _texts(count)]
        table = _table(features, cuts)
        timed: dict[tuple[str, str], list[float]] = {}
        for _ in range(rounds):
            for way, model in models.items():
                whole = partial(Tagger(features, model).probabilities, cuts)
                for what, run in (("graph", partial(model, table)), ("reading", whole)):
                    timed.setdefault((what, way), []).append(_median_s(run, seconds))
        reference = models[CPU](table)
        for (what, way), taken_s in timed.items():
            difference = float(np.abs(models[way](table) - reference).max())
            yield _row(
                what, way, count, taken_s, timed, difference / float(np.abs(reference).max())
            )
    if absent:
        yield Row("names", "graph, reading", way=CUDA, note=f"absent: {absent}")


def _add_cuda(models: dict[str, TaggerModel]) -> str | None:
    if card() is None:
        return NO_CARD
    cuda_libraries.preload()
    session = OrtSession(_ROOT / "1")
    if session.provider != CUDA_PROVIDER:
        return f"the session runs on {session.provider}"

    def run(rows: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        logits: Any = session.run({"rows": rows})["logits"]
        return np.asarray(logits, np.float32)

    models[CUDA] = run
    return None


def _texts(count: int) -> list[str]:
    lines = (_ROOT / "text/hard_negatives.txt").read_text("utf-8").splitlines()
    plain = [line.replace("\\n", "\n") for line in lines if line and not line.startswith("#")]
    return list(itertools.islice(itertools.cycle(plain), count))


def _table(features: Any, cuts: list[TextWords]) -> npt.NDArray[np.int32]:
    """All texts in one batch, padded to the longest."""
    each = [features.rows(words) for words in cuts]
    table = np.zeros((len(each), max(map(len, each)), each[0].shape[1]), np.int32)
    for at, one in enumerate(each):
        table[at, : len(one)] = one
    return table


def _median_s(run: Callable[[], Any], seconds: float) -> float:
    for _ in range(_WARM_RUNS):
        run()
    took_s: list[float] = []
    until_s = time.perf_counter() + seconds
    while (began_s := time.perf_counter()) < until_s:
        run()
        took_s.append(time.perf_counter() - began_s)
    return median(took_s)


def _row(
    what: str,
    way: str,
    count: int,
    taken_s: list[float],
    timed: dict[tuple[str, str], list[float]],
    off: float,
) -> Row:
    def times(base: str) -> float | None:
        pairs = zip(timed.get((what, base), ()), taken_s, strict=False)
        ratios = [base_s / own_s for base_s, own_s in pairs]
        return median(ratios) if ratios else None

    each_s = median(taken_s)
    return Row(
        "names", what, count, way, 1e3 * each_s, count / each_s, times(CPU), times(CUDA), off
    )
