"""`spillway classify`: what the gateway's own scanner finds in texts, for tuning and for audits.

One `{"id","text"}` a line in, one verdict a line out, in the same order.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import stat
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gateway.classify import NoScan, ScannerUnfit
from gateway.classify.profile import PROFILES, Profile
from gateway.classify.scan_workers.pool import MAX_BUDGET_S, ScanPool
from gateway.classify.scan_workers.spec import worker_spec
from gateway.classify.scanner.together import together
from gateway.cli import console
from gateway.config import ClassifySettings, ConfigError
from gateway.config.section import known
from gateway.core import ambient
from gateway.core.errors import MalformedBody
from gateway.core.types import Finding, Sensitivity
from gateway.protocols import strictjson

if TYPE_CHECKING:
    from gateway.classify.names import Names
    from gateway.cli.categories.scan import CategoryScan

EXIT_OK, EXIT_FAILED, EXIT_BAD_INPUT = 0, 1, 2
EXIT_INTERRUPTED = 130  # 128 + the number of the signal, as shells do
_READ_BYTES = 1 << 16


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "classify",
        help="find personal data in texts, as the gateway does",
        description='Reads one {"id", "text"} a line and writes one verdict a line, in order: '
        '{"id", "sensitivity", "findings": [{"start", "end", "type", "score"}], "ms", "reason"}. '
        "Offsets count characters.",
    )
    parser.add_argument("--jsonl", required=True, metavar="FILE", help="the file; - for stdin")
    parser.add_argument(
        "--profile", choices=sorted(PROFILES), help="instead of the settings' (default: balanced)"
    )
    parser.add_argument(
        "--config", type=Path, help="settings whose classify section to use (default: ours)"
    )
    parser.add_argument(
        "--category", metavar="NAME",
        help="how near each text is to this category of the settings, in place of findings: "
        '{"id", "category", "score", "threshold", "verdict", "ms"}',
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="no progress bar; a summary in JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    settings = _settings(args)
    report = _Report(as_json=args.json)
    try:
        with _opened(args.jsonl) as (source, lines), _progress(args, lines) as advance:
            asyncio.run(_classify_all(source, settings, args.category, report, advance))
    except BrokenPipeError:
        raise  # who reads the verdicts has seen enough
    except OSError as exc:
        report.error(f"spillway classify: {args.jsonl}: {exc.strerror or exc}")
        return EXIT_BAD_INPUT
    except ScannerUnfit as exc:
        report.error(f"spillway classify: {exc}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    report.summary()
    return EXIT_BAD_INPUT if report.bad_lines else EXIT_OK


def _settings(args: argparse.Namespace) -> ClassifySettings:
    """A report may take its time: the longest budget there is, on all cores."""
    settings = console.load_settings(args.config).classify if args.config else ClassifySettings()
    if args.category is not None and args.category not in settings.categories:
        raise ConfigError(
            f"classify.categories: no {args.category!r}; {known(settings.categories)}"
        )
    changes = {"workers": _cores(), "budget_ms": MAX_BUDGET_S * 1e3}
    if args.profile is not None:
        changes["profile"] = args.profile
    return settings.model_copy(update=changes)


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
        self._verdicts[line["verdict"] if "verdict" in line else line["sensitivity"]] += 1
        print(json.dumps(line, ensure_ascii=False), flush=True)

    def bad_line(self, number: int, why: str) -> None:
        self.bad_lines += 1
        self.error(f"line {number}: {why}")

    def error(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    def summary(self) -> None:
        counts = {s.value: 0 for s in Sensitivity} | self._verdicts
        if self._as_json:
            self.error(json.dumps({**counts, "bad_lines": self.bad_lines}))
        else:
            spelled = ", ".join(f"{n} {name}" for name, n in counts.items())
            self.error(f"{spelled}, {self.bad_lines} bad line{'s' * (self.bad_lines != 1)}")


async def _classify_all(
    source: IO[bytes],
    settings: ClassifySettings,
    category: str | None,
    report: _Report,
    advance: Any,
) -> None:
    """As many scans at once as there are workers; each verdict as soon as all before it are out,
    so that a program can send a line and wait for its verdict."""
    running: asyncio.Queue[asyncio.Task[dict[str, Any]] | None] = asyncio.Queue(settings.workers)

    async def start() -> None:
        async for item in _items(source, report, advance):
            await running.put(asyncio.create_task(scan.line(item.id, item.text)))
        await running.put(None)

    async def run() -> None:
        while (task := await running.get()) is not None:
            report.verdict(await task)
            advance()

    failed: list[BaseException] = []
    scan: FullScan | CategoryScan
    if category is None:
        scan = await FullScan.start(settings)
    else:
        from gateway.cli.categories.scan import CategoryScan  # numpy

        scan = await CategoryScan.start(settings, category)
        report.error(scan.summary())
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(start())
            both.create_task(run())
    except* OSError as group:  # what is raised in here would come in a group again
        failed.extend(group.exceptions)
    finally:
        await scan.aclose()
    if failed:
        raise failed[0]


@dataclass(frozen=True, slots=True)
class FullScan:
    """Both looks at once: patterns in full, and names."""

    settings: ClassifySettings
    profile: Profile
    pool: ScanPool
    names: Names | None

    @classmethod
    async def start(cls, settings: ClassifySettings) -> FullScan:
        """With one worker, which imports Presidio while names are imported here, and more as soon
        as that one is ready: a few lines do not need them. Raises ScannerUnfit."""
        profile = Profile.from_settings(settings)
        pool = ScanPool(worker_spec(settings, everything=True))
        scans = asyncio.create_task(pool.start())
        names = asyncio.create_task(_started_names(settings, profile))
        try:
            await asyncio.gather(scans, names)
        except BaseException:
            await asyncio.wait((scans, names))  # what has started is closed, and not left behind
            await pool.aclose()
            if not names.cancelled() and names.exception() is None and (presidio := names.result()):
                await presidio.aclose()
            raise
        pool.grow(settings.workers - 1)
        return cls(settings, profile, pool, names.result())

    async def line(self, id_: Any, text: str) -> dict[str, Any]:
        started_s = ambient.monotonic_s()
        findings: list[Finding] = []
        if len(text.encode("utf-8", "surrogatepass")) > self.settings.max_scan_bytes:
            reason = "over_cap"
        else:
            findings, reason = await self.findings(text)
        clear = Sensitivity.CLEAR if reason == "clear" else Sensitivity.RESTRICTED
        return {
            "id": id_,
            "sensitivity": clear.value,
            "findings": [
                {k: v for k, v in asdict(f).items() if k in ("start", "end", "type", "score")}
                for f in findings
            ],
            "ms": round((ambient.monotonic_s() - started_s) * 1e3, 3),
            "reason": reason,
        }

    async def findings(self, text: str) -> tuple[list[Finding], str]:
        """And the reason code."""
        budget_s = self.settings.budget_ms / 1e3
        findings: list[Finding] = []
        try:
            (findings,) = await self.pool.scan([text], budget_s)
            if self.names is not None:
                from gateway.classify.names.forms import find_in_all_forms  # imports much

                allowed = self.settings.allow_list
                (named,) = await find_in_all_forms(self.names, [text], budget_s, allowed)
                findings = together(findings, named)
        except NoScan as failure:
            return findings, "entities" if self.profile.restricts(findings) else failure.reason
        return findings, "entities" if self.profile.restricts(findings) else "clear"

    async def aclose(self) -> None:
        await self.pool.aclose()
        if self.names is not None:
            await self.names.aclose()


async def _started_names(settings: ClassifySettings, profile: Profile) -> Names | None:
    def build() -> Names | None:
        from gateway.classify.names import engines  # half a second, beside that of the worker

        return engines.for_reports(settings, profile.types)

    names = await asyncio.to_thread(build)
    if names is not None:
        await names.start()
    return names


async def _items(source: IO[bytes], report: _Report, advance: Any) -> AsyncIterator[_Item]:
    number = 0
    async for line in _lines(source):
        number += 1
        if not line.strip():
            continue
        try:
            document = strictjson.load_object(line)
        except MalformedBody as exc:
            report.bad_line(number, exc.message.replace("the body", "this line"))
        else:
            if "id" in document and isinstance(document.get("text"), str):
                yield _Item(document["id"], document["text"])
                continue
            report.bad_line(number, 'each line needs an "id" and a "text" that is a string')
        advance()


async def _lines(source: IO[bytes]) -> AsyncIterator[bytes]:
    """Lines of a file, or of a pipe or terminal without blocking the loop while none comes."""
    mode = os.fstat(source.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or source.isatty()):
        for line in source:
            yield line
        return
    begun = b""
    while data := await _read(source.fileno()):
        *whole, begun = (begun + data).split(b"\n")
        for line in whole:
            yield line
    yield begun


async def _read(descriptor: int) -> bytes:
    """What is there once something is. The descriptor stays blocking: a terminal shares it with
    the standard output, whose writes must not fail for being early."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, _READ_BYTES)


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
    if args.json or not sys.stderr.isatty() or sys.stdout.isatty():  # or they would mix
        yield lambda: None
        return
    columns = (TextColumn("classify"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=False) as progress:
        task = progress.add_task("classify", total=lines)
        yield lambda: progress.advance(task)


def _cores() -> int:
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
