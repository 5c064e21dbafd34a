"""`spillway classify`: what the gateway's own scanner finds in texts, for tuning and for audits.

One `{"id","text"}` a line in, one verdict a line out, in the same order.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gateway import strictjson
from gateway.classify import NoScan, ScannerUnfit, Scans
from gateway.classify.classifier import worker_spec
from gateway.classify.pool import MAX_BUDGET_S, ScanPool
from gateway.classify.profile import PROFILES, Profile
from gateway.config import ClassifySettings
from gateway.errors import MalformedBody
from gateway.types import Finding, Sensitivity

EXIT_OK, EXIT_FAILED, EXIT_BAD_INPUT = 0, 1, 2


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "classify",
        help="find personal data in texts, as the gateway does",
        description='Reads one {"id", "text"} a line and writes one verdict a line, in order: '
        '{"id", "sensitivity", "findings": [{"start", "end", "type", "score"}], "ms", "reason"}. '
        "Offsets count characters.",
    )
    parser.add_argument("--jsonl", required=True, metavar="FILE", help="the file; - for stdin")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="balanced")
    parser.add_argument("--json", action="store_true", help="no progress bar; a summary in JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    settings = ClassifySettings(
        profile=args.profile, workers=_cores(), budget_ms=MAX_BUDGET_S * 1e3
    )
    report = _Report(as_json=args.json)
    try:
        with _opened(args.jsonl) as (source, lines), _progress(args, lines) as advance:
            asyncio.run(_classify_all(source, settings, report, advance))
    except (OSError, ScannerUnfit) as exc:
        report.error(f"spillway classify: {exc}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 130
    report.summary()
    return EXIT_BAD_INPUT if report.bad_lines else EXIT_OK


@dataclass(frozen=True, slots=True)
class _Item:
    id: Any  # whatever the input has: it goes back as it came
    text: str


class _Report:
    """Verdicts on standard output, all else on standard error."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._verdicts: Counter[str] = Counter()
        self.bad_lines = 0

    def verdict(self, line: dict[str, Any]) -> None:
        self._verdicts[line["sensitivity"]] += 1
        print(json.dumps(line, ensure_ascii=False), flush=True)

    def bad_line(self, number: int, why: str) -> None:
        self.bad_lines += 1
        self.error(f"line {number}: {why}")

    def error(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    def summary(self) -> None:
        counts = {s.value: self._verdicts[s.value] for s in Sensitivity}
        if self._as_json:
            self.error(json.dumps({**counts, "bad_lines": self.bad_lines}))
        else:
            spelled = ", ".join(f"{n} {name}" for name, n in counts.items())
            self.error(f"{spelled}, {self.bad_lines} bad lines")


async def _classify_all(
    source: IO[bytes], settings: ClassifySettings, report: _Report, advance: Any
) -> None:
    """As many scans at once as there are workers, verdicts in the order of the lines."""
    pool = ScanPool(worker_spec(settings, everything=True), settings.workers)
    profile = Profile.of(settings)
    await pool.start()
    try:
        running: deque[asyncio.Task[dict[str, Any]]] = deque()
        for item in _items(source, report, advance):
            running.append(asyncio.create_task(_classify(item, pool, profile, settings)))
            while len(running) >= settings.workers:
                report.verdict(await running.popleft())
                advance()
        while running:
            report.verdict(await running.popleft())
            advance()
    finally:
        await pool.aclose()


async def _classify(
    item: _Item, pool: Scans, profile: Profile, settings: ClassifySettings
) -> dict[str, Any]:
    started_s = time.monotonic()
    findings: list[Finding] = []
    if len(item.text.encode()) > settings.max_scan_bytes:
        reason = "over_cap"
    else:
        try:
            (findings,) = await pool.scan([item.text], settings.budget_ms / 1e3)
            reason = "entities" if profile.restricts(findings) else "clear"
        except NoScan as failure:
            reason = failure.reason
    clear = Sensitivity.CLEAR if reason == "clear" else Sensitivity.RESTRICTED
    return {
        "id": item.id,
        "sensitivity": clear.value,
        "findings": [
            {k: v for k, v in asdict(f).items() if k in ("start", "end", "type", "score")}
            for f in findings
        ],
        "ms": round((time.monotonic() - started_s) * 1e3, 3),
        "reason": reason,
    }


def _items(source: IO[bytes], report: _Report, advance: Any) -> Iterator[_Item]:
    for number, line in enumerate(source, 1):
        if not line.strip():
            continue
        try:
            found = strictjson.load_object(line)
        except MalformedBody as exc:
            report.bad_line(number, exc.message.replace("the body", "this line"))
        else:
            if "id" in found and isinstance(found.get("text"), str):
                yield _Item(found["id"], found["text"])
                continue
            report.bad_line(number, 'each line needs an "id" and a "text" that is a string')
        advance()


@contextlib.contextmanager
def _opened(name: str) -> Iterator[tuple[IO[bytes], int | None]]:
    """The source, and how many lines it has when that can be told without reading it twice."""
    if name == "-":
        yield sys.stdin.buffer, None
        return
    path = Path(name)
    with path.open("rb") as source:
        lines = sum(1 for line in source if line.strip()) if path.is_file() else None
        if lines is not None:
            source.seek(0)
        yield source, lines


@contextlib.contextmanager
def _progress(args: argparse.Namespace, lines: int | None) -> Iterator[Any]:
    if args.json or not sys.stderr.isatty():
        yield lambda: None
        return
    columns = (TextColumn("classify"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=False) as progress:
        task = progress.add_task("classify", total=lines)
        yield lambda: progress.advance(task)


def _cores() -> int:
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
