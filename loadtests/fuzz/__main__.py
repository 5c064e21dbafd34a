"""`python -m loadtests.fuzz`: see the package."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gateway.core.process import gc_tuning
from loadtests.fuzz.confirm import confirm
from loadtests.fuzz.families import FAMILIES
from loadtests.fuzz.inputs import MOST_BYTES, Input
from loadtests.fuzz.search import Finding, Search
from loadtests.fuzz.subject import running

_PROGRESS_S = 10.0
_HOLD_MS = 50.0
_RATIO = 10.0
_WARMING = 6  # inputs of each family, before any counts


def searched(given: argparse.Namespace, scratch: Path) -> Search:
    search = Search(given.seed, tuple(given.family), given.keyed_bytes)
    with running(scratch) as subject:
        for each in Search(0, search.families).inputs():  # what the first calls need once
            subject.cost(each)
            search.tried += 1
            if search.tried >= _WARMING * len(search.families):
                break
        search.tried = 0
        gc_tuning.settled_anew()
        began_s = shown_s = time.monotonic()
        for each in search.inputs():
            search.learn(each, subject.cost(each))
            now_s = time.monotonic()
            if now_s - shown_s >= _PROGRESS_S:
                shown_s = now_s
                print(_progress(search), file=sys.stderr, flush=True)
            if search.tried >= given.count or now_s - began_s >= given.seconds:
                break
    return search


def _progress(search: Search) -> str:
    holds = [f.cost.hold_ms for _, _, measure, f in search.worst() if measure == "hold"]
    ratios = [f.cost.memory_ratio for _, _, measure, f in search.worst() if measure == "memory"]
    return f"{search.tried} inputs; {max(holds):.0f} ms, {max(ratios):.1f} times its size"


def _row(family: str, keyed: bool, measure: str, finding: Finding) -> dict[str, Any]:
    cost = finding.cost
    return {
        "family": family,
        "keyed": keyed,
        "measure": measure,
        **asdict(cost),
        "ms_per_mb": cost.ms_per_mb,
        "memory_ratio": cost.memory_ratio,
    }


def _keep(folder: Path, search: Search) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for family, keyed, measure, finding in search.worst():
        name = f"{family}-{'key' if keyed else 'nokey'}-{measure}.json"
        document = {**finding.input.document(), "cost": asdict(finding.cost)}
        (folder / name).write_text(json.dumps(document))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtests.fuzz")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120.0, help="at most, for the search")
    parser.add_argument("--count", type=int, default=1 << 30, help="of inputs, at most")
    parser.add_argument("--family", nargs="*", choices=sorted(FAMILIES), default=[*FAMILIES])
    parser.add_argument("--keyed-bytes", type=int, default=4 * MOST_BYTES)
    parser.add_argument("--keep", type=Path, help="a folder for the costliest of each kind")
    parser.add_argument("--confirm", type=Path, nargs="*", help="files of --keep, and no search")
    parser.add_argument("--unconfirmed", action="store_true", help="send nothing to a real process")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spillway-fuzz-") as folder:
        scratch = Path(folder)
        rows: list[dict[str, Any]] = []
        if given.confirm:
            inputs = [Input.read(json.loads(path.read_text())) for path in given.confirm]
            rows = [{"family": i.family, "keyed": i.keyed, "measure": ""} for i in inputs]
        else:
            search = searched(given, scratch)
            if given.keep is not None:
                _keep(given.keep, search)
            worst = [each for each in search.worst() if each[2] != "total"]
            rows = [_row(*each) for each in worst]
            inputs = [finding.input for _, _, _, finding in worst]
        if not given.unconfirmed:
            for row, confirmed in zip(rows, confirm(inputs, scratch), strict=True):
                row["served"] = asdict(confirmed)
    if given.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            print(_line(row))
    return int(any(_over(row) for row in rows))


def _over(row: dict[str, Any]) -> bool:
    """In the process, whose times do not depend on what else the machine does."""
    return bool(row.get("hold_ms", 0.0) > _HOLD_MS or row.get("memory_ratio", 0.0) > _RATIO)


def _line(row: dict[str, Any]) -> str:
    told = f"{row['family']:9} {'key' if row['keyed'] else 'no key':6} {row['measure']:7}"
    if "hold_ms" in row:
        told += (
            f" {row['size'] / 1e6:6.2f} MB  {row['hold_ms']:7.1f} ms a turn "
            f"{row['ms_per_mb']:8.0f} ms/MB  {row['memory_ratio']:5.1f} times its size"
        )
    if (served := row.get("served")) is not None:
        told += (
            f"  | served: {served['size'] / 1e6:.2f} MB, waits {served['hold_ms']:.0f} ms (idle "
            f"{served['idle_ms']:.0f}), grows {served['grown_bytes'] / 1e6:.0f} MB"
        )
    return told + ("  OVER" if _over(row) else "")


if __name__ == "__main__":
    sys.exit(main())
