"""What several operations require of a field."""

from __future__ import annotations

from typing import Any

from gateway.core.errors import MISSING, WRONG_TYPE, InvalidField

_INTEGERS = frozenset({int})


def required(document: dict[str, Any], key: str) -> Any:
    """Raises InvalidField for a field that is left out."""
    if (value := document.get(key)) is None:
        raise InvalidField(key, "is required", MISSING)
    return value


def check_text_or_tokens(document: dict[str, Any], key: str) -> None:
    """A string, token ids, or a list of either; raises InvalidField for anything else."""
    given = required(document, key)
    if isinstance(given, str):
        return
    if isinstance(given, list) and not given:
        raise InvalidField(key, "must not be empty")
    if not isinstance(given, list) or not (
        all(isinstance(item, str) for item in given)
        or _token_ids(given)
        or all(isinstance(item, list) and item and _token_ids(item) for item in given)
    ):
        raise InvalidField(
            key,
            "must be a string, a list of strings, or token ids (one list or several)",
            WRONG_TYPE,
        )


def _token_ids(items: list[Any]) -> bool:
    return _INTEGERS.issuperset(map(type, items))
