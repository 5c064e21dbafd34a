"""Keys of LiteLLM's file, as references to variables of the environment."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.app.imports import Imported

ENVIRON = "os.environ/"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_KEYS = frozenset({"none", "empty", "dummy", "fake", "fake-key", "not-needed"})


class SecretVariables:
    """What stands in the file is not copied: it gets a variable to be put into."""

    def __init__(self, document: Mapping[str, Any], imported: Imported) -> None:
        self._imported = imported
        self._variables = set(_named_variables(document))
        self._stated: dict[str, str] = {}  # keys that stand in the file: their variables

    def reference(self, value: str | None, variable: str, where: str) -> str:
        """To the secret `value`, by that variable where it has none; empty without a secret."""
        if not value or value.lower() in _NO_KEYS:
            return ""
        named = value.removeprefix(ENVIRON)
        if named != value and _VARIABLE.fullmatch(named):
            self._imported.secrets.setdefault(named, where)
            return f"${{{named}}}"
        if value not in self._stated:
            numbered = (f"{variable}_{at}" for at in range(2, 10_000))
            wishes = itertools.chain((variable,), numbered)
            self._stated[value] = next(w for w in wishes if w not in self._variables)
            self._variables.add(self._stated[value])
        wanted = self._stated[value]
        self._imported.secrets.setdefault(wanted, where)
        self._imported.check(
            where, f"a key stands in the file: put it into {wanted}, and out of there"
        )
        return f"${{{wanted}}}"


def key_variable(provider: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", f"{provider}_API_KEY".upper())


def _named_variables(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value.startswith(ENVIRON):
        yield value.removeprefix(ENVIRON)
    elif isinstance(value, Mapping):
        for below in value.values():
            yield from _named_variables(below)
    elif isinstance(value, list):
        for below in value:
            yield from _named_variables(below)
