"""C2 and C3: wherever text stands it is read, and what is no text is never clear."""

from __future__ import annotations

import asyncio
import base64
import random
from typing import Any

import pytest

from gateway.classify.classifier import Classifier
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.types import Classification, Sensitivity
from tests.unit.classify.corpus import (
    CARD,
    UNREADABLE,
    Body,
    chat,
    harmless,
    positions,
    thought,
    tool,
)

PERSONAL, HARMLESS = positions(CARD), positions(harmless(1))


def classified(classifier: Classifier, kit: Any, body: Body) -> Classification:
    operation, document = body
    request = kit.make_request(document, operation=operation)
    return asyncio.run(classifier.classify(request))


@pytest.mark.parametrize("position", PERSONAL)
def test_personal_data_is_found_in_every_position(
    position: str, classifier: Classifier, kit: Any
) -> None:
    found = classified(classifier, kit, PERSONAL[position])
    assert (found.sensitivity, found.reason) == (Sensitivity.RESTRICTED, "entities")
    assert found.entities["CREDIT_CARD"] >= 1


@pytest.mark.parametrize("position", HARMLESS)
def test_the_same_positions_are_clear_with_harmless_text(
    position: str, classifier: Classifier, kit: Any
) -> None:
    """Else the test above would pass on a classifier that restricts everything."""
    found = classified(classifier, kit, HARMLESS[position])
    assert (found.reason, dict(found.entities)) == ("clear", {})


# No front lets these through; the classifier does not count on that.
NOT_OF_JSON: dict[str, tuple[Body, str]] = {
    "a set": (chat(note={1, 2}), "value_type"),
    "bytes": (chat(note=b"x"), "value_type"),
    "a key that is no string": (chat(note={1: "x"}), "value_type"),
    "texts and tokens": ((EMBEDDINGS, {"input": ["hi", [1]]}), "token_ids"),
}


UNREAD = UNREADABLE | NOT_OF_JSON


@pytest.mark.parametrize("case", UNREAD)
def test_what_cannot_be_read_is_restricted(case: str, classifier: Classifier, kit: Any) -> None:
    body, what = UNREAD[case]
    found = classified(classifier, kit, body)
    assert found.restricted
    assert found.reason == f"unscannable:{what}"


def test_the_signature_of_a_chat_s_thought_is_read_as_a_text(
    classifier: Classifier, kit: Any
) -> None:
    assert classified(classifier, kit, thought("thinking:c2ln")).reason == "clear"
    hidden = base64.b64encode(f"my card is {CARD}".encode()).decode()
    assert classified(classifier, kit, thought(f"thinking:{hidden}")).reason == "entities"


def test_a_tool_may_have_a_parameter_called_like_an_opaque_field(
    classifier: Classifier, kit: Any
) -> None:
    body = tool(parameters={"type": "object", "properties": {"file_id": {"type": "string"}}})
    assert classified(classifier, kit, body).reason == "clear"


def test_text_over_the_cap_is_restricted_without_a_scan(scanner: Any, kit: Any) -> None:
    pool = kit.in_process(scanner)
    found = classified(kit.make_classifier(pool), kit, chat(note="word " * 300_000))
    assert (found.reason, pool.scanned) == ("over_cap", [])


def test_a_document_of_too_many_values_is_restricted(classifier: Classifier, kit: Any) -> None:
    found = classified(classifier, kit, chat(note=[None] * 300_000))
    assert found.reason == "over_cap"


def test_a_long_base64_run_that_is_no_text_is_restricted(classifier: Classifier, kit: Any) -> None:
    blob = base64.b64encode(random.Random(1).randbytes(3000)).decode()
    assert classified(classifier, kit, chat(note=f"here: {blob}")).restricted
