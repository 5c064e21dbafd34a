"""One door for time and chance, so that a simulation can own both."""

from __future__ import annotations

import ast
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import gateway
from gateway.core import ambient
from gateway.core.ambient import Sources, UnseededRandom, drawn_from
from gateway.core.deadline import Deadline

PACKAGE = Path(gateway.__file__).parent

OUTSIDE = ("demo",)
"""The demo is a caller and a cloud: other programs than the gateway."""

DRAWS = {
    "time": {"sleep"},  # a wait of a thread of its own; it reads nothing
    "random": {"Random"},  # a generator that is given its seed or its source
    "uuid": {"UUID"},
    "secrets": {"compare_digest"},
}
"""What may be used of each module that knows the time or draws lots: all else is `ambient`'s."""

SEEDED = {"Random", "default_rng"}

FORBIDDEN_METHODS = {"urandom", "getrandom", "now", "utcnow", "today", "time_ns"}


def _modules() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE)
        if inside.name != "ambient.py" and inside.parts[0] not in OUTSIDE:
            yield path


def _direct_uses(source: str) -> list[str]:
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name in DRAWS
    }
    return [use for node in ast.walk(tree) for use in _use(node, names)]


def _use(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    line = getattr(node, "lineno", 0)
    if isinstance(node, ast.Call) and not (node.args or node.keywords):
        called = ast.unparse(node.func)
        if called.rpartition(".")[2] in SEEDED:
            yield f"{line}: {called} without a seed"
    if isinstance(node, ast.ImportFrom) and node.module in DRAWS:
        for alias in node.names:
            if alias.name not in DRAWS[node.module]:
                yield f"{line}: from {node.module} import {alias.name}"
    if not isinstance(node, ast.Attribute):
        return
    if isinstance(node.value, ast.Name) and node.value.id in names:
        module = names[node.value.id]
        if node.attr not in DRAWS[module]:
            yield f"{line}: {module}.{node.attr}"
    elif node.attr in FORBIDDEN_METHODS or _is_loop_time(node) or _is_numpys_own(node):
        yield f"{line}: .{node.attr}"


def _is_numpys_own(node: ast.Attribute) -> bool:
    """Of the generator that all of numpy shares."""
    whose = ast.unparse(node.value)
    return whose in ("np.random", "numpy.random") and node.attr not in ("default_rng", "Generator")


def _is_loop_time(node: ast.Attribute) -> bool:
    """`asyncio.get_running_loop().time`, and `loop.time` of whatever is called a loop."""
    if node.attr != "time":
        return False
    whose = ast.unparse(node.value)
    return whose.endswith("loop()") or whose.endswith("loop")


def test_only_one_module_reads_clocks_and_draws_lots() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{use}"
        for path in _modules()
        for use in _direct_uses(path.read_text())
    ]
    assert wrong == [], "take it from gateway.core.ambient, or have it injected"


@pytest.mark.parametrize(
    "source",
    [
        "import time\nx = time.monotonic()",
        "import time as t\nx = t.time",
        "from time import perf_counter",
        "import random\nrandom.random()",
        "from random import SystemRandom",
        "from random import Random\nRandom()",
        "import numpy as np\nnp.random.default_rng()",
        "import numpy as np\nnp.random.rand(3)",
        "import uuid\nuuid.uuid4()",
        "import secrets\nsecrets.token_bytes(8)",
        "import os\nos.urandom(8)",
        "from datetime import datetime\ndatetime.now()",
        "import asyncio\nasyncio.get_running_loop().time()",
        "self._loop.time()",
    ],
)
def test_each_way_around_it_is_seen(source: str) -> None:
    assert _direct_uses(source) != []


def test_it_is_drawn_from_the_given_sources_and_from_the_machine_again_afterwards() -> None:
    mine = Sources(lambda: 7.0, lambda: 8.0, lambda count: b"\x07" * count)
    with drawn_from(mine):
        assert (ambient.monotonic_s(), ambient.wall_s()) == (7.0, 8.0)
        assert ambient.random_hex(2) == "0707"
        assert ambient.new_id() == ambient.new_id()
    assert ambient.monotonic_s() != 7.0
    assert ambient.new_id() != ambient.new_id()


def test_a_function_that_was_handed_out_before_follows_the_sources_too() -> None:
    clock = ambient.monotonic_s
    with drawn_from(Sources(monotonic_s=lambda: 7.0)):
        assert clock() == 7.0


def test_a_clock_that_is_kept_is_the_one_of_the_sources_that_were_there() -> None:
    def mine() -> float:
        return 7.0

    before = ambient.clock()
    with drawn_from(Sources(monotonic_s=mine)):
        assert ambient.clock() is mine
        assert Deadline(8.0).remaining_s() == 1.0
    assert ambient.clock() is before


def test_lots_are_spread_over_their_range() -> None:
    lots = UnseededRandom()
    drawn = [lots.random() for _ in range(2000)]
    assert 0.0 <= min(drawn) < 0.05
    assert 0.95 < max(drawn) < 1.0
    assert 0.45 < sum(drawn) / len(drawn) < 0.55
    assert {lots.randrange(5) for _ in range(200)} == set(range(5))
    assert all(lots.getrandbits(3) < 8 for _ in range(200))


def test_ids_are_uuids_of_version_4_and_none_comes_twice() -> None:
    ids = {ambient.new_id() for _ in range(5000)}
    assert len(ids) == 5000
    found = [uuid.UUID(text) for text in ids]
    assert all(str(one) in ids for one in found), "in the form of RFC 9562"
    assert {(one.version, one.variant) for one in found} == {(4, uuid.RFC_4122)}
    each = [sum(one.int >> bit & 1 for one in found) for bit in range(128) if bit not in _FIXED]
    assert all(2150 < count < 2850 for count in each), "every other bit is a lot of its own"


_FIXED = {62, 63, *range(76, 80)}
"""The bits of version and variant."""


def test_many_ids_are_drawn_from_the_system_at_once() -> None:
    asked: list[int] = []

    def counted(count: int) -> bytes:
        asked.append(count)
        return os.urandom(count)

    with drawn_from(Sources(random_bytes=counted)):
        drawn = {ambient.random_hex(8) for _ in range(1000)} | {ambient.random_hex(16)}
        assert len(drawn) == 1001
        assert len(asked) < 5
        ambient.random_bytes(32)
        assert asked[-1] == 32, "keys are of nothing that was in memory before"


def test_what_was_drawn_before_is_no_part_of_a_simulation() -> None:
    ambient.random_hex(8)
    with drawn_from(Sources(random_bytes=lambda count: b"\x07" * count)):
        assert ambient.random_hex(8) == "07" * 8
    assert ambient.random_hex(8) != "07" * 8


def test_a_fork_does_not_draw_what_its_parent_draws() -> None:
    ambient.random_hex(8)  # there is a block to share
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(writing, " ".join(ambient.random_hex(8) for _ in range(600)).encode())
        os._exit(0)
    os.close(writing)
    told = b""
    while some := os.read(reading, 65536):
        told += some
    os.close(reading)
    os.waitpid(pid, 0)
    ours = {ambient.random_hex(8) for _ in range(600)}
    theirs = set(told.decode().split())
    assert len(theirs) == 600
    assert not ours & theirs
