"""README.md of this package, from what is known of each behaviour."""

from __future__ import annotations

from tests.behaviours import Behaviour
from tests.behaviours.every import EVERY
from tests.marks import ROOT

PAGE = ROOT / "tests" / "behaviours" / "README.md"

_HEAD = """\
# Behaviours

What must hold of the gateway's decisions whatever happens, by the short ids that comments and tests
refer to. *Where* names the files with the guards that make it hold; each of them has been taken out
alone (one that stands behind another, together with it), and the tests beside it failed. What is
printed in *italics* tests the whole, beside them.

This page is written by `python -m tests.behaviours --write` from `tests/behaviours/`, where each
guard is listed by its name. In the code a comment marks it (`# guard: D4.early-refusal`) and says
how it is taken out (`tests/marks.py`). `python -m tests.behaviours` takes them out again, one after
the other in a copy, and says which tests notice (half an hour; `--only D4` for one id). A test
keeps the page and the list true: that every test and every guard is still there.

The placement of restricted calls has proofs of its own: the
[two guards](../../docs/decisions/002-fail-closed-egress.md), and
[worlds that fail](../../docs/decisions/023-verification.md).
"""


def rendered() -> str:
    parts = [_HEAD]
    for heading, some in EVERY:
        rows = "\n".join(_row(one) for one in some)
        parts.append(
            f"\n## {heading}\n\n| id | what holds | where | tests |\n|---|---|---|---|\n{rows}\n"
        )
    return "".join(parts)


def _row(one: Behaviour) -> str:
    files = "<br>".join(f"`{file}`" for file in one.files)
    guarded = dict.fromkeys(test for guard in one.guards for test in guard.tests)
    tests = [_test(test) for test in guarded]
    tests += [f"*{_test(test)}*" for test in one.also if test not in guarded]
    return f"| {one.id} | {one.holds} | {files} | {'<br>'.join(tests)} |"


def _test(name: str) -> str:
    """Its sentence, behind the file that it stands in."""
    file, _, function = name.partition("::")
    return f"[{function.removeprefix('test_').replace('_', ' ')}](../{file})"
