"""What a card does for the models of a repository.

    python -m loadtests.gpu [--only minilm] [--batches 1 8 32] [--rounds 5] [--json] [--plot FILE]

For each model and each batch: milliseconds of a run and rows a second, on the processor with all
cores, by ONNX Runtime on CUDA, and by engines of TensorRT and TensorRT for RTX, in fp32 and in fp16
where the model allows it; how many times faster that is than the processor and than CUDA in fp32;
and the largest difference to the graph as it was written, relative to the largest value. Ways take
turns, round by round; medians of the rounds. What cannot run here is named with the reason, so that
on a machine without a card the processor alone is measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from gateway.models import declaration, versions
from gateway.models.sessions import Feed, Level, Session
from gateway.models.variants.engines import Loaded
from loadtests.gpu import WITH_GRAPHS, Found, apart, picture, usual
from loadtests.gpu.ways import CPU, CUDA, card, ways

MODELS = Path(__file__).resolve().parents[2] / "models"
_WARM_RUNS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", default=WITH_GRAPHS, choices=WITH_GRAPHS)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each way in each round")
    parser.add_argument("--plot", type=Path, help="write curves over the batch here (SVG or PNG)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found: list[Found] = []
    absent: dict[str, str] = {}
    for name in args.only:
        print(f"{name} ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            found += _measured(name, args, Path(scratch), absent)
    document = {
        "card": card(),
        "found": [_figures(one, found) for one in found],
        "absent": absent,
    }
    if args.json:
        print(json.dumps(document))
    else:
        _show(document)
    if args.plot:
        picture.write(args.plot, found)


def _measured(
    name: str, args: argparse.Namespace, scratch: Path, absent: dict[str, str]
) -> list[Found]:
    directory = MODELS / name
    declared = declaration.load(directory / declaration.FILE)
    graph = versions.graph_file(directory, declared)
    if not graph.exists():
        sys.exit(f"{graph} is not there: python models/build.py")
    opened: dict[str, Loaded] = {}
    for way in ways(declared):
        loaded = way.open(directory, declared, scratch)
        if loaded.run is None:
            absent[f"{name}, {way.name}"] = loaded.why_not or "it does not say why"
        else:
            opened[way.name] = loaded
    reference = Session(graph, level=Level.NONE)
    cases = []
    for batch in args.batches:
        feed = usual(declared, batch)
        expected = reference.run(feed)
        for way_name, loaded in opened.items():
            assert loaded.run is not None
            one = Found(name, batch, way_name, apart(loaded.run(feed), expected))
            cases.append((one, loaded.run, feed))
    for _ in range(args.rounds):
        for one, run, feed in cases:
            one.took_s.append(median(_times(run, feed, args.seconds)))
    return [one for one, _, _ in cases]


def _times(run: Any, feed: Feed, seconds: float) -> Iterator[float]:
    for _ in range(_WARM_RUNS):
        run(feed)
    until_s = time.perf_counter() + seconds
    while (began_s := time.perf_counter()) < until_s:
        run(feed)
        yield time.perf_counter() - began_s


def _figures(one: Found, found: Sequence[Found]) -> dict[str, Any]:
    beside = {f.way: f for f in found if (f.model, f.batch) == (one.model, one.batch)}
    told: dict[str, Any] = {
        "model": one.model,
        "batch": one.batch,
        "way": one.way,
        "ms": round(one.ms, 4),
        "rows_per_s": round(one.rows_per_s, 1),
        "off": float(f"{one.off:.2g}"),
    }
    for base in (CPU, CUDA):
        pairs = zip(beside[base].took_s, one.took_s, strict=True) if base in beside else ()
        ratios = [base_s / own_s for base_s, own_s in pairs]
        told[f"times_{base}"] = round(median(ratios), 2) if ratios else None
    return told


def _show(document: dict[str, Any]) -> None:
    console = Console(width=140)
    console.print(document["card"] or "no NVIDIA card here: the processor alone is measured")
    table = Table(*document["found"][0])
    for row in document["found"]:
        table.add_row(*("-" if value is None else str(value) for value in row.values()))
    console.print(table)
    for what, why in document["absent"].items():
        console.print(f"{what}: absent: {why}", highlight=False, markup=False)


if __name__ == "__main__":
    main()
