"""What a card does for the models of a repository, in one table.

    python -m loadtests.gpu [--only minilm] [--batches 1 8 32] [--rounds 5] [--json] [--plot FILE]
    python -m loadtests.gpu --sections providers curves names gateway

`providers`: which of ONNX Runtime's load with the environment that the embedded Triton's models
have, which builders of engines are installed, and why the others are not.

`curves`: for each model and each batch milliseconds of a run and rows a second, on the processor
with all cores, by ONNX Runtime on CUDA, and by engines of TensorRT and TensorRT for RTX, in fp32
and in fp16 where the model allows it; how many times faster that is than the processor and than
CUDA in fp32; and the largest difference to the graph as it was written, relative to the largest
value. Ways take turns, round by round; medians of the rounds.

`names`: the names model at 1, 32 and 256 texts at once, its graph alone and the whole reading.

`gateway`: the embedded Triton with one caller and with 32, and `spillway serve` before it with 32.

What cannot run here is named with the reason, so that on a machine without a card the processor
alone is measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gateway.models import declaration, versions
from gateway.models.declaration import Declaration
from gateway.models.sessions import Feed, Level, Session
from gateway.models.variants.engines import Loaded
from loadtests.gpu import WITH_GRAPHS, Found, Row, apart, front, names, picture, providers, usual
from loadtests.gpu.ways import CPU, CUDA, Way, card, ways

MODELS = Path(__file__).resolve().parents[2] / "models"
SECTIONS = ("providers", "curves", "names", "gateway")
_WARM_RUNS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sections", nargs="+", default=SECTIONS, choices=SECTIONS)
    parser.add_argument("--only", nargs="+", default=WITH_GRAPHS, choices=WITH_GRAPHS)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 32, 256], help="of names")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each way in each round")
    parser.add_argument("--plot", type=Path, help="write curves over the batch here (SVG or PNG)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found: list[Found] = []
    absent: dict[str, str] = {}
    rows: list[Row] = []
    if "providers" in args.sections:
        rows += _noted("providers", providers.rows())
    for name in args.only if "curves" in args.sections else ():
        print(f"{name} ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            found += _measured(name, args, Path(scratch), absent)
    rows += [_row(one, found) for one in found]
    rows += [_absent(what, why) for what, why in absent.items()]
    if "names" in args.sections:
        rows += _noted("names", names.rows(args.rounds, args.seconds, args.texts))
    if "gateway" in args.sections:
        rows += _noted("gateway", front.rows(args.rounds, max(1.0, args.seconds)))
    if args.json:
        print(json.dumps({"card": card(), "rows": [asdict(row) for row in rows]}))
    else:
        show(card(), rows)
    if args.plot:
        picture.write(args.plot, found)


def _noted(section: str, rows: Iterator[Row]) -> list[Row]:
    """A section that breaks leaves the others their lines."""
    print(f"{section} ...", file=sys.stderr, flush=True)
    made: list[Row] = []
    try:
        made.extend(rows)
    except Exception as exc:  # noqa: BLE001 - whatever this machine lacks is a line of the table
        traceback.print_exc()
        made.append(Row(section, "all", note=f"broke: {type(exc).__name__}: {exc}"))
    return made


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
        loaded = _opened(way, directory, declared, scratch)
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


def _opened(way: Way, directory: Path, declared: Declaration, scratch: Path) -> Loaded:
    try:
        return way.open(directory, declared, scratch)
    except Exception as exc:  # noqa: BLE001 - whatever breaks one way leaves the others theirs
        traceback.print_exc()
        return Loaded(why_not=f"{type(exc).__name__}: {exc}")


def _times(run: Any, feed: Feed, seconds: float) -> Iterator[float]:
    for _ in range(_WARM_RUNS):
        run(feed)
    until_s = time.perf_counter() + seconds
    while (began_s := time.perf_counter()) < until_s:
        run(feed)
        yield time.perf_counter() - began_s


def _row(one: Found, found: Sequence[Found]) -> Row:
    others = {f.way: f for f in found if (f.model, f.batch) == (one.model, one.batch)}

    def times(base: str) -> float | None:
        pairs = zip(others[base].took_s, one.took_s, strict=True) if base in others else ()
        ratios = [base_s / own_s for base_s, own_s in pairs]
        return median(ratios) if ratios else None

    return Row(
        "curves", one.model, one.batch, one.way, one.ms, one.rows_per_s, times(CPU), times(CUDA),
        one.off,
    )  # fmt: skip


def _absent(what: str, why: str) -> Row:
    model, _, way = what.partition(", ")
    return Row("curves", model, way=way, note=f"absent: {why}")


_FORMATS = {
    "ms": ".3f",
    "rows_per_s": ",.0f",
    "times_cpu": ".2f",
    "times_cuda": ".2f",
    "off": ".1e",
}


def show(device: str | None, rows: Sequence[Row]) -> None:
    console = Console(width=200)
    console.print(device or "no NVIDIA card here: the processor alone is measured")
    table = Table(*(field.name for field in fields(Row)))
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and before.section != row.section:
            table.add_section()
        table.add_row(*(escape(_cell(name, value)) for name, value in asdict(row).items()))
    console.print(table)


def _cell(name: str, value: str | float | None) -> str:
    return "-" if value is None else format(value, _FORMATS.get(name, ""))


if __name__ == "__main__":
    main()
