"""Modules that are imported when something of them is first used.

For whoever starts a process, before anything else is imported: `import httpx` in any module then
costs nothing until a request is made. Names out of such a module (`from httpx import Client`)
import it at once, so those who want it late write `import httpx`.

The standard library's `LazyLoader` cannot do this in Python 3.11: the import statement itself looks
into what is in `sys.modules`, and any look loads it.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    """Is asked only for what it does not have, which is everything until it has been imported."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        real = importlib.import_module(self.__name__)
        self.__dict__.update(vars(real))
        return getattr(real, name)


def put_off(*names: str) -> None:
    """Those that are neither imported yet nor missing."""
    for name in names:
        if name not in sys.modules and find_spec(name) is not None:
            later = _Later(name)
            later.__spec__ = ModuleSpec(name, None)
            sys.modules[name] = later
