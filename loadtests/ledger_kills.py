"""Kills processes that write a ledger, and looks for what they had been told was on disk:
`python -m loadtests.ledger_kills --kills 1000 [--postgres DSN]`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

from gateway.accounting.ledger.database import integer
from gateway.accounting.ledger.opening import to_read
from gateway.accounting.pricing import nano

ROOT = Path(__file__).parent.parent
_EACH = nano(0.001)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--postgres", default="")
    args = parser.parse_args()
    lots, killed, kept, told = Random(0), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        while killed < args.kills:
            told += _round(path, args.postgres, args.at_once, lots)
            killed += args.at_once
            kept = _kept(path, args.postgres)
            if kept < told:
                print(f"after {killed} kills {told - kept} of {told} entries are lost")
                return 1
    print(f"{killed} kills: {told} entries were said to be on disk, {kept} are, none is lost")
    return 0


def _round(path: Path, dsn: str, at_once: int, lots: Random) -> int:
    """Entries that were said to be on disk."""
    command = [sys.executable, "-m", "tests.unit.ledger.budgeted", str(path), dsn]
    writing = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(at_once)
    ]
    told = 0
    for process in writing:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(lots.randint(1, 8))]
        process.kill()
        rest = process.stdout.read().split("\n")[:-1]  # said before it died, whole lines
        told += max(int(line) for line in (*lines, *rest) if line.strip())
        process.stdout.close()
        process.wait()
    return told


def _kept(path: Path, dsn: str) -> int:
    database = to_read(path, dsn or None)
    entries, days = (
        integer(database.read(f"SELECT SUM(nano_usd) FROM {table}")[0][0])
        for table in ("attempts", "days")
    )
    database.close()
    assert entries == days, "the days' sums are not those of the entries"
    return entries // _EACH


if __name__ == "__main__":
    sys.exit(main())
