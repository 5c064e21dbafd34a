"""An operation that Spillway has not: a text in, the same in another language out."""

from __future__ import annotations

from typing import Any

from gateway.core.errors import InvalidField
from gateway.core.operations.body import required
from gateway.core.operations.capabilities import PLAIN
from gateway.core.operations.spec import OperationSpec


def _check(document: dict[str, Any]) -> None:
    if not isinstance(required(document, "text"), str):
        raise InvalidField("text", "must be a string")


TRANSLATIONS = OperationSpec(
    name="translations",
    task="translate",
    path="/v1/translations",
    check=_check,
    fields={"model": PLAIN, "text": PLAIN, "to": PLAIN},
    writes=True,
    canary={"text": "Hi", "to": "de"},
)
