"""A person who has not read the docs learns why a call went where it went."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from gateway.accounting.live import words
from gateway.accounting.live.decisions import DecisionRow
from gateway.accounting.live.explanation import explanation, headline, sentences, summary
from tests.unit.console.console_rig import attempt, record

REASONS = (Path(__file__).parents[3] / "docs" / "reference" / "reasons.md").read_text()
LATE = record(
    [attempt("cloud")],
    reason="spill_deadline",
    end_reason="spill_deadline",
    budget_s=0.5,
    predicted_s={"gpu": 0.9, "cloud": 0.2},
)
STAYS = record(
    sensitivity="restricted",
    classify_reason="entities",
    entities={"PERSON": 2, "CREDIT_CARD": 1},
    reason="restricted",
    zones=["onprem"],
    vetoes={"cloud": "restricted"},
    looked_for="patterns",
)
REFUSED = record(
    [],
    sensitivity="restricted",
    classify_reason="late",
    reason=None,
    zones=[],
    outcome="shed",
    end_reason="onprem_unavailable_restricted",
    vetoes={"cloud": "restricted", "gpu": "drained"},
    predicted_s={"gpu": math.inf, "cloud": 0.2},
)
UNREAD = record(
    [], sensitivity=None, classify_reason=None, classify_s=None, looked_for=None, reason=None,
    zones=[], vetoes={}, predicted_s={}, outcome="shed", end_reason="saturated",
)  # fmt: skip
TWICE = record(
    [attempt("gpu", "upstream_unreachable"), attempt("cloud")], reason="onprem_room",
    end_reason="failover",
)  # fmt: skip
SENT = record([attempt("gpu", "sent")], outcome="sent", took_s=0.0004)
SLOW = record([attempt("cloud")], reason="spill_unavailable", vetoes={"gpu": "slow"})


ANSWER = {
    "answer_reason": "entities", "answer_entities": {"PERSON": 2},
    "tool_call_entities": {"IBAN_CODE": 1}, "masked": 3, "withheld": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (record(), "Answered on the premises by gpu: clear; on-prem had room."),
        (STAYS, "Answered on the premises by gpu: restricted data may not leave."),
        (LATE, "Answered in the cloud by cloud: clear; on-prem would have been late."),
        (TWICE, "Answered in the cloud by cloud: clear; on-prem failed, cloud took over."),
        (SENT, "Being answered on the premises by gpu: clear; on-prem had room."),
        (REFUSED, "Not answered (shed): 503, retry later: never to the cloud."),
        (UNREAD, "Not answered (shed): every queue was full."),
    ],
)
def test_the_headline_says_where_and_why(given: dict[str, Any], says: str) -> None:
    assert headline(given) == says


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (record(), "It is clear: read in full, and nothing in it restricts."),
        (record(), "It took 21 ms, within its latency budget of 1000 ms."),
        (record(took_s=1.2), "It took 1200 ms, over its latency budget of 1000 ms."),
        (STAYS, "Found in it, types and counts only: 1 x CREDIT_CARD, 2 x PERSON."),
        (
            record(answer=ANSWER),
            "Found in its answer, types and counts only: 2 x PERSON; in tool calls 1 x IBAN_CODE."
            " 3 places were masked.",
        ),
        (
            record(answer={**ANSWER, "answer_reason": "late", "withheld": True}),
            "could be read (late). It was withheld: its key may not see personal data.",
        ),
        (STAYS, "It was allowed on the premises only, because it is restricted."),
        (STAYS, "It was read as far as was needed for a call that stays."),
        (REFUSED, "It was allowed on the premises only, because it is restricted."),
        (record(zones=["onprem"]), "its caller, its key or its tenant says so"),
        (LATE, "of them it was worth least"),
        (SLOW, "(gpu: it had become many times slower than usual)"),
        (UNREAD, "It was refused before it was read, so it counts as restricted."),
        (UNREAD, "It was sent to no endpoint."),
        (TWICE, "It took 2 tries; zones that it may use only shrink between them."),
        (SENT, "It was sent 0.4 ms after it came, of 1000 ms."),
        (record(sensitivity="restricted", classify_reason="unscannable:image"), "(image)"),
    ],
)
def test_its_class_its_zones_and_its_time_are_told_in_sentences(
    given: dict[str, Any], says: str
) -> None:
    assert says in " ".join(sentences(given))


def test_every_endpoint_is_told_with_what_became_of_it() -> None:
    told = explanation(DecisionRow(1, REFUSED, 1))["endpoints"]
    assert {e["endpoint"]: (e["verdict"], e["code"], e["predicted_ms"]) for e in told} == {
        "cloud": ("passed over", "restricted", 200),
        "gpu": ("passed over", "drained", None),
    }
    assert "restricted data may never go there" in {e["words"] for e in told}
    kept = explanation(DecisionRow(1, record(), 1))["endpoints"]
    assert [(e["endpoint"], e["verdict"]) for e in kept] == [
        ("gpu", "tried"), ("cloud", "in reserve"),
    ]  # fmt: skip


@pytest.mark.parametrize("given", [record(), STAYS, LATE, REFUSED, UNREAD, TWICE, SENT])
def test_what_is_told_is_json_as_browsers_read_it(given: dict[str, Any]) -> None:
    json.dumps(explanation(DecisionRow(1, given, 1)), allow_nan=False)
    json.dumps(summary(DecisionRow(1, given, 1)), allow_nan=False)


def codes(section: str) -> set[str]:
    """The first column of a section's table."""
    text = REASONS.split(f"## {section}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {code for row in rows for code in re.findall(r"`([a-z_:<>]+)`", row)}


def test_every_documented_code_has_words() -> None:
    placed = {r for zone, r in words._WHY if zone != words.NONE}
    assert codes("Placement") == placed
    assert codes("Vetoes") | {"unavailable"} == set(words.VETOES)
    assert codes("Verdicts") == {
        *words.VERDICTS, "unscannable:<what>", "category:<name>", "hook:<name>",
    }  # fmt: skip


def test_a_zone_of_the_settings_is_drawn_outside_and_named_in_words() -> None:
    row = record(
        [{**attempt("cloud"), "zone": "eu", "endpoint": "acme"}],
        sensitivity="restricted", zones=["eu", "onprem"], admitted=["eu"],
        classify_reason="entities", reason="spill_queue", **{"class": "personal"},
    )  # fmt: skip
    told = explanation(DecisionRow(1, row, 1))
    assert (told["zone"], told["attempts"][0]["zone"]) == ("cloud", "cloud")
    assert told["headline"].startswith("Answered in eu by acme")
    assert "It was allowed on the premises and in eu." in told["sentences"]
    assert told["sentences"][0].startswith("It is personal: ")
