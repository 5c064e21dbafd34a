"""When Python looks for garbage, in processes of their own: this one's collector stays as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

_CYCLES = """
import gc, json, weakref
from gateway.core.process import gc_tuning as garbage

class Node:
    pass

def cycle():
    node = Node()
    node.itself = node
    return weakref.ref(node)

garbage.none_yet()
began = gc.isenabled()
kept = cycle()
garbage.settled()
settled = gc.isenabled(), gc.get_freeze_count() > 1000
gc.collect()
before = kept() is not None
garbage.settled_anew()
later = cycle()
for _ in range(12_000):
    cycle()
print(json.dumps({"began": began, "settled": settled, "before": before, "kept": kept() is not None,
                  "later": later() is not None, "frozen": gc.get_freeze_count() > 1000}))
"""


def _told(program: str) -> Any:
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return json.loads(ran.stdout)


def test_what_was_there_is_left_alone_until_much_has_changed_and_cycles_still_go() -> None:
    assert _told(_CYCLES) == {
        "began": False,
        "settled": [True, True],
        "before": True,  # it was there when all was taken to stay
        "kept": False,
        "later": False,
        "frozen": True,
    }
