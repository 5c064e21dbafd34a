"""Modules that are imported when something of them is used, and not when their names are.

Presidio imports spaCy, and the four NLP engines that use it, before it is told which engine it is
to use: half a second for each scan worker, which uses none of them. So while `deferred` holds, an
import of one of the modules that it names gives an empty module. A name out of it stands for the
real thing until it is called, looked into or derived from: then the module is imported, whole and
for everybody. Nothing else is touched, and once the block is over any import of these modules is
the ordinary one. Classes and functions can be deferred so, and constants cannot.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Union


class DeferredName:
    """A name out of a module that has not been imported."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def _real(self) -> Any:
        return getattr(importlib.import_module(self._module), self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._real()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # typing asks what it is given for these
            raise AttributeError(name)
        return getattr(self._real(), name)

    def __or__(self, other: Any) -> Any:
        """In an annotation."""
        return Union[self, other]  # noqa: UP007 - there is no | for it but this one

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return (self._real(),)

    def __instancecheck__(self, instance: object) -> bool:
        """There is nothing of a class that nobody has imported."""
        module = sys.modules.get(self._module)
        return module is not None and isinstance(instance, getattr(module, self._name))


class _Empty(ModuleType):
    """Stands in the place of a module while somebody imports names out of it."""

    def __getattr__(self, name: str) -> DeferredName:
        if name.startswith("__"):
            raise AttributeError(name)
        return DeferredName(self.__name__, name)


class _Finder(MetaPathFinder, Loader):
    """Finds the deferred modules, and no others. For sys.meta_path."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._names:
            return None
        package = any(other.startswith(f"{name}.") for other in self._names)
        return ModuleSpec(name, self, is_package=package)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


@contextmanager
def deferred(names: Collection[str]) -> Iterator[None]:
    """Those of these modules that are not imported yet. For one thread, before there are others:
    while this holds, sys.modules has the empty ones."""
    finder = _Finder(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in names:
            if isinstance(sys.modules.get(name), _Empty):
                _take_out(name)


def _take_out(name: str) -> None:
    """The next import finds the real one, also as an attribute of its package."""
    module = sys.modules.pop(name)
    above, _, last = name.rpartition(".")
    package = sys.modules.get(above)
    if package is not None and vars(package).get(last) is module:
        delattr(package, last)
