"""`python -m tests.behaviours`: see the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.behaviours import Guard, every
from tests.behaviours.removal import copied, run, without


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.behaviours")
    parser.add_argument("--only", default="", help="this id, this guard, or guards that say this")
    given = parser.parse_args()
    chosen = [
        (behaviour.id, guard)
        for behaviour in every()
        for guard in behaviour.guards
        if given.only in ("", behaviour.id, guard.name) or given.only in guard.gone
    ]
    with copied() as root:
        tests = dict.fromkeys(test for _, guard in chosen for test in guard.tests)
        if failing := run(tuple(tests), root).tests:
            print(f"these fail with every guard in place: {sorted(failing)}")
            return 2
        blind = sum(not _noticed(of, guard, root) for of, guard in chosen)
    return bool(blind)


def _noticed(of: str, guard: Guard, root: Path) -> bool:
    found = without(guard, root)
    blind = [test for test in guard.tests if test not in found.tests]
    said = "hangs" if found.hung else f"blind: {blind}" if blind else "noticed"
    print(f"{of} | {guard.gone} | {said}", flush=True)
    return not blind


if __name__ == "__main__":
    sys.exit(main())
