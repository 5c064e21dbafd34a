"""How long the scanner needs to start, and what sockets it opens: `python -m
loadtests.classify.start [--json]`.

`spillway classify` on one line, from the start of the process to its end, medians; and once under
an audit hook that counts every socket that Python code opens in this process and its scan workers
(those refuse to open any: `gateway.classify.scan_workers.worker`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

_LINE = '{"id": 1, "text": "call Margaret Whitfield at +44 20 7946 0958"}\n'
_COMMAND = (sys.executable, *["-m", "gateway", "classify", "--jsonl", "-", "--json", "--profile"])
_COUNTING = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(event) if event.startswith("socket.") and
    event not in ("socket.gethostname",) else None)
from gateway.__main__ import main
code = main(["classify", "--jsonl", "-", "--json", "--profile", PROFILE])
outward = [e for e in opened if e in ("socket.connect", "socket.getaddrinfo", "socket.bind",
    "socket.sendto", "socket.gethostbyname")]
print(f"sockets: {len(outward)}", file=sys.stderr)
"""


def run_ms(profile: str) -> float:
    began = time.perf_counter()
    subprocess.run(
        [*_COMMAND, profile],
        input=_LINE, text=True, check=True, capture_output=True,
    )  # fmt: skip
    return (time.perf_counter() - began) * 1e3


def sockets(profile: str) -> int:
    code = _COUNTING.replace("PROFILE", repr(profile))
    ended = subprocess.run(
        [sys.executable, "-c", code], input=_LINE, text=True, check=False, capture_output=True
    )
    counts = [line for line in ended.stderr.splitlines() if line.startswith("sockets: ")]
    if not counts:
        raise SystemExit(f"the counted run ended with {ended.returncode}: {ended.stderr[-500:]}")
    return int(counts[-1].split()[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    profiles = {"patterns": "patterns", "with names": "balanced"}
    took: dict[str, list[float]] = {name: [] for name in profiles}
    for _ in range(args.runs):
        for name, profile in profiles.items():
            took[name].append(run_ms(profile))
    rows = {
        name: {
            "median_ms": round(statistics.median(times)),
            "sockets": sockets(profiles[name]),
        }
        for name, times in took.items()
    }
    if args.json:
        print(json.dumps(rows))
    else:
        for name, row in rows.items():
            print(f"{name:12} {row['median_ms']} ms, {row['sockets']} sockets opened outward")
    return 0


if __name__ == "__main__":
    sys.exit(main())
