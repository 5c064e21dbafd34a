"""Which files and functions of the gateway one usual call enters, counted in a running gateway.

    python -m loadtests.bench.entered [--model onprem] [--kind chat] [--calls 200]

Calls come one after the other to a gateway that is warm. A function counts that at least half of
them enter, wherever the gateway's loop runs it: before the answer, and for the record, the metrics
and the queue after it. What runs by the clock, such as probes, and what libraries do is left out.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from loadtests.bench import live

_USUAL = 0.5  # entries for each call
_BY_THE_CLOCK = (
    "accounting/audit/writer/failure.py",
    "accounting/audit/writer/gauges.py",
    "accounting/ledger_watch.py",
    "endpoints/health/prober.py",
)
"""On a busy machine a call takes so long that these run more than once meanwhile."""
_PACKAGE = Path(__file__).parent.parent.parent / "gateway"


def main() -> None:
    options = live.parser(__doc__.splitlines()[0] if __doc__ else "")
    options.set_defaults(model="onprem", connections=1, calls=200)
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        files = entered(live.bytecodes(args, Path(scratch))["functions"])
    print(json.dumps(files) if args.json else _table(files))


def entered(functions: list[live.Function]) -> dict[str, list[str]]:
    """Files under `gateway/`, each with the functions that a usual call enters."""
    files: dict[str, list[str]] = {}
    for function in functions:
        file, _, line_and_name = function["function"].partition(":")
        name = line_and_name.partition(" ")[2]
        if file in _BY_THE_CLOCK or not (_PACKAGE / file).is_file():
            continue
        if function["calls"] >= _USUAL:
            files.setdefault(file, []).append(name)
    return {file: sorted(files[file]) for file in sorted(files)}


def _table(files: dict[str, list[str]]) -> str:
    lines = [f"{file}: {', '.join(names)}" for file, names in files.items()]
    count = sum(map(len, files.values()))
    return "\n".join([*lines, f"{len(files)} files, {count} functions"])


if __name__ == "__main__":
    main()
