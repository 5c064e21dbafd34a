"""`spillway models search`: the instances, threads, precision and batching that serve a model best.

Each choice is measured at an embedded Triton of its own. Measurements are saved next to the
model, so that an interrupted search goes on where it was.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from rich.progress import Progress
from rich.table import Table

from gateway.cli import console
from gateway.cli.models import add_repository, chosen, reporting
from gateway.cli.models.profile import bounded_count, can_draw
from gateway.endpoints.triton import TritonServerError
from gateway.models import versions
from gateway.models.declaration import Declaration
from gateway.models.failures import GateClosed, ModelCommandFailed, WrongModel
from gateway.models.profiling.search import ChoiceTrial, ServingChoice, trial
from gateway.models.profiling.search.climb import ChoiceResult
from gateway.models.profiling.search.record import SearchPlan, SearchRecord
from gateway.models.profiling.search.run import ModelSearch, keep

_MS = 1000
_SHOWN = 8  # of the choices, the best first


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("search", help="find how a model is served best, and declare it")
    plan = SearchPlan()
    parser.add_argument("name", metavar="NAME", help="a model with a model.yaml")
    parser.add_argument(
        "--latency-ms",
        type=_positive,
        metavar="MS",
        help="that 99 of 100 calls must be answered within",
    )
    parser.add_argument("--seconds", type=_positive, default=plan.seconds, help="for all of it")
    parser.add_argument(
        "--callers", type=bounded_count, default=plan.most_callers, help="at once, most"
    )
    parser.add_argument("--words", type=bounded_count, default=plan.words, help="of each text")
    parser.add_argument("--cores", type=bounded_count, help="to share out; all that there are")
    parser.add_argument(
        "--batch",
        type=bounded_count,
        nargs="+",
        default=(),
        metavar="ROWS",
        help="largest batches to try, which callers may not exceed; only the declared one if none",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="all choices as .svg or .png")
    parser.add_argument("--dry-run", action="store_true", help="leave model.yaml as it is")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    add_repository(parser)
    parser.set_defaults(run=reporting(execute))


def execute(args: argparse.Namespace) -> int:
    (directory,) = chosen(args.repository, [args.name])
    declared = versions.declared(directory)
    if args.plot is not None and not can_draw(args.plot):
        return 2
    if too_large := [rows for rows in args.batch if rows > declared.max_batch]:
        raise WrongModel(
            f"--batch {too_large[0]}: model.yaml allows {declared.max_batch}; raise batch.max first"
        )
    limit_s = None if args.latency_ms is None else args.latency_ms / _MS
    plan = SearchPlan(args.seconds, args.callers, args.words, limit_s)
    record = SearchRecord.opened(directory, plan)
    try:
        result = _searched(args, directory, declared, plan, record)
    except TritonServerError as exc:
        console.fail(str(exc))
        return 1
    except KeyboardInterrupt:
        if record.trials:
            line = f"{len(record.trials)} choices are in {record.path}; run it again to go on"
            console.err.print(line, markup=False)
        raise
    if args.plot is not None:
        from gateway.models.profiling.search import picture  # matplotlib is slow to import

        picture.write(args.plot, declared.name, record.trials.values(), result, limit_s)
    if args.json:
        console.put_json(_document(record, result, limit_s))
    else:
        _show(record, result, limit_s)
    _refuse_unfit(result, limit_s)
    if result.changes and not args.dry_run:
        for path in keep(directory, declared, result.chosen.choice):
            console.err.print(f"written: {path}", markup=False)
    return 0


def _searched(
    args: argparse.Namespace,
    directory: Path,
    declared: Declaration,
    plan: SearchPlan,
    record: SearchRecord,
) -> ChoiceResult:
    from gateway.models.served.ort_session import usable_cores  # ONNX Runtime is slow to import

    with Progress(console=console.err, transient=True) as bar:
        task = bar.add_task(f"searching for {declared.name}", total=plan.seconds)

        def progress(choice: ServingChoice, passed_s: float) -> None:
            text = f"{len(record.trials)} tried; {choice}"
            bar.update(task, completed=min(passed_s, plan.seconds), description=text)

        space = trial.space(directory, declared, args.cores or usable_cores(), tuple(args.batch))
        search = ModelSearch(directory, declared, plan, record, progress)
        return asyncio.run(search.result(space))


def _refuse_unfit(result: ChoiceResult, limit_s: float | None) -> None:
    """Raises ModelCommandFailed where nothing serves, GateClosed where nothing is quick enough."""
    if result.chosen.failure or not result.chosen.loads:
        raise ModelCommandFailed(f"{result.chosen.choice}: {result.chosen.failure}")
    if limit_s is not None and result.chosen.best(limit_s) is None:
        least_s = min(point.p99_s for point in result.chosen.loads)
        raise GateClosed(
            f"nothing that was tried answers 99 of 100 calls within {limit_s * _MS:g} ms; the "
            f"quickest takes {least_s * _MS:.1f} ms ({result.chosen.choice}). Nothing was written"
        )


def _document(
    record: SearchRecord, result: ChoiceResult, limit_s: float | None
) -> dict[str, object]:
    return {
        "chosen": result.chosen.as_json(),
        "declared": result.declared.as_json(),
        "changes": result.changes,
        "gain": result.gain(limit_s),
        "latency_limit_s": limit_s,
        "complete": result.complete,
        "reused": record.reused,
        "trials": [one.as_json() for one in record.trials.values()],
    }


def _show(record: SearchRecord, result: ChoiceResult, limit_s: float | None) -> None:
    table = Table(
        "choice, instances x threads", "callers", "calls a second", "ms, 99th", "executed batch", ""
    )
    marks = {result.declared.choice: "declared", result.chosen.choice: "chosen"}
    ranked = sorted(record.trials.values(), key=lambda one: one.score(limit_s), reverse=True)
    shown = [one for at, one in enumerate(ranked) if at < _SHOWN or one.choice in marks]
    for one in shown:
        table.add_row(str(one.choice), *_figures(one, limit_s), marks.get(one.choice, ""))
    console.err.print(table)
    gain = result.gain(limit_s)
    for line in (
        f"{len(record.trials)} choices, {record.reused} of them from an earlier search",
        *([] if result.complete else ["the time was up before all were tried; run it again"]),
        f"chosen: {result.chosen.choice}" if result.changes else "the declared choice stays",
        *([f"{gain:.2f} times the throughput of the declared"] if gain and result.changes else []),
    ):
        console.err.print(line, markup=False)


def _figures(one: ChoiceTrial, limit_s: float | None) -> tuple[str, str, str, str]:
    if one.failure:
        return ("", "", "", one.failure[:60])
    point = one.best(limit_s) or min(one.loads, key=lambda load: load.p99_s)
    return (
        str(point.callers),
        f"{point.calls_per_s:,.0f}",
        f"{point.p99_s * _MS:.2f}",
        f"{point.executed:.1f}",
    )


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("must be above 0")
    return number
