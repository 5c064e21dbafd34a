from __future__ import annotations

from typing import Any

import pytest

from gateway.core.operations.json_schema import plain

SAFE = 2**53 - 1
DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}
WHOLE = {"type": "integer", "minimum": -SAFE, "maximum": SAFE}


@pytest.mark.parametrize(
    ("written", "left"),
    [
        (DRAFT, {}),
        (WHOLE, {"type": "integer"}),
        ({"items": WHOLE}, {"items": {"type": "integer"}}),
        ({"anyOf": [WHOLE, DRAFT]}, {"anyOf": [{"type": "integer"}, {}]}),
        ({"properties": {"minimum": WHOLE}}, {"properties": {"minimum": {"type": "integer"}}}),
        ({"$defs": {"$schema": WHOLE}}, {"$defs": {"$schema": {"type": "integer"}}}),
    ],
)
def test_what_holds_an_answer_to_nothing_is_left_out(written: Any, left: Any) -> None:
    assert plain(written) == left


@pytest.mark.parametrize(
    "schema",
    [
        {"minimum": -SAFE + 1},
        {"maximum": float(SAFE)},
        {"minimum": SAFE},
        {"const": WHOLE},
        {"enum": [WHOLE]},
        {"default": DRAFT},
        {"properties": {"$schema": {"type": "string"}}},
        {"properties": 3, "anyOf": 3, "items": 3},
    ],
)
def test_all_else_stays_as_it_is(schema: Any) -> None:
    assert plain(schema) == schema


def test_a_schema_is_not_changed_itself() -> None:
    schema = {"properties": {"a": dict(WHOLE)}, **DRAFT}
    plain(schema)
    assert schema == {"properties": {"a": WHOLE}, **DRAFT}


def test_what_is_too_deep_is_left_as_it_is() -> None:
    schema: dict[str, Any] = DRAFT
    for _ in range(100):
        schema = {"items": schema}
    innermost = plain(schema)
    while "items" in innermost:
        innermost = innermost["items"]
    assert innermost == DRAFT
