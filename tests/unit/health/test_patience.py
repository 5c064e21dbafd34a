"""How long a try may take, from what answers took, whatever its caller's deadline."""

from __future__ import annotations

import pytest

from gateway.config import HealthSettings
from gateway.core.operations.chat import CHAT
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.types import DocumentCall, JsonDocument, Payload, TensorCall
from gateway.endpoints.health.patience import give_up_s
from tests.unit.harness import now_s, request, run
from tests.unit.health.hands import Known

SETTINGS = HealthSettings()


def patience_s(found: Known, payload: Payload) -> float:
    async def main() -> float:
        return give_up_s(found, SETTINGS, request(payload=payload, budget_s=now_s()))

    return run(main())


def chat(streamed: bool = False, **more: object) -> DocumentCall:
    document: JsonDocument = {"messages": [], **more}
    return DocumentCall(CHAT, document, streamed)


@pytest.mark.parametrize(
    ("high_s", "sample", "expected_s"),
    [(0.01, 50, 5.0), (0.6, 50, 6.0), (4.0, 50, 40.0), (0.01, 9, 30.0)],
    ids=["the-floor", "ten-times", "slow-models", "unknown-times"],
)
def test_a_try_may_take_ten_times_what_answers_take_and_never_less_than_the_floor(
    high_s: float, sample: int, expected_s: float
) -> None:
    found = Known(high_s / 2, high_s, sample)
    assert patience_s(found, TensorCall(())) == pytest.approx(expected_s)


def test_an_answer_that_is_written_before_it_begins_may_take_longer_by_its_tokens() -> None:
    found = Known(0.01, 0.02, 99)
    assert patience_s(found, chat(max_tokens=200)) == pytest.approx(25.0)
    assert patience_s(found, chat(max_completion_tokens=100)) == pytest.approx(15.0)
    assert patience_s(found, chat()) > 300
    assert patience_s(found, chat(streamed=True)) == pytest.approx(5.0)
    assert patience_s(found, DocumentCall(EMBEDDINGS, {})) == pytest.approx(5.0)
