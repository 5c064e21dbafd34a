"""The page that says what each front can ask of each provider is current, and every cell of it is
true: what goes is taken by an API written from its schema, with the caller's words."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest

from gateway.core.operations.chat import CHAT
from gateway.core.operations.spec import Translation
from gateway.core.types import DocumentCall
from tests.translation.__main__ import PAGE, page
from tests.translation.features import FEATURES, PLAIN
from tests.translation.ways import FRONTS, PROVIDERS, refusal

CELLS = [
    (name, front, provider)
    for name, sayable in FEATURES.items()
    for front in sayable
    for provider in PROVIDERS
]


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(), "write it anew: python -m tests.translation"
    assert len(FEATURES) >= 40
    assert {front for _, front, _ in CELLS} == set(FRONTS)


@pytest.mark.parametrize(("feature", "front", "provider"), CELLS)
def test_what_goes_means_the_same_and_what_stays_is_named(
    feature: str, front: str, provider: str
) -> None:
    body = PLAIN[front] | FEATURES[feature][front]
    before, api = copy.deepcopy(body), PROVIDERS[provider]
    stays = refusal(front, provider, body)
    assert body == before
    if stays is not None:
        assert stays
        return
    sent = api.sent(FRONTS[front](body))
    if front == api.front == "chat":
        assert sent == body
        return
    assert api.problem(sent) == ""
    written = json.dumps(sent)
    body = {name: value for name, value in body.items() if name not in api.omits}
    for word in words(body):
        assert word in written


def words(value: Any) -> list[str]:
    """What the caller says in its own words, keys included."""
    return re.findall(r"w-[a-z0-9]+", json.dumps(value))


def test_another_front_and_another_provider_join_by_a_line() -> None:
    def odd(body: dict[str, Any]) -> DocumentCall:
        return DocumentCall(CHAT, body, translation=Translation("chat"))

    FRONTS["odd"] = odd
    try:
        assert refusal("odd", "openai", PLAIN["chat"]) is None
    finally:
        del FRONTS["odd"]
