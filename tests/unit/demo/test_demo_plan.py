"""The calls of the demo: the same in each run, each recognisable, restricted by their making."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import pytest

from gateway.demo.people import card, crowd, iban
from gateway.demo.plan import PHASES, ClientMethod, PlannedCall, payment, plan

Shown = tuple[str, float, str, tuple[str, ...]]


def calls(count: int = 300, seconds: float = 20.0, seed: int = 1) -> list[PlannedCall]:
    return [call for phase in plan(seed, count, seconds).values() for call in phase]


def shown(plans: Mapping[str, list[PlannedCall]]) -> list[Shown]:
    return [(c.trace, c.at_s, c.text, c.needles) for phase in plans.values() for c in phase]


def test_the_same_seed_makes_the_same_calls_and_another_makes_others() -> None:
    assert shown(plan(1, 50, 9.0)) == shown(plan(1, 50, 9.0))
    assert shown(plan(1, 50, 9.0)) != shown(plan(2, 50, 9.0))


@pytest.mark.parametrize("count", [1, 7, 64, 576])
def test_a_plan_has_as_many_calls_as_it_was_asked_for(count: int) -> None:
    assert len(calls(count)) == count


def test_phases_share_the_time_and_calls_lie_within_their_phase() -> None:
    assert sum(phase.time_share for phase in PHASES) == pytest.approx(1)
    assert sum(phase.call_share for phase in PHASES) == pytest.approx(1)
    for phase in PHASES:
        times = [call.at_s for call in plan(1, 300, 20.0)[phase.name]]
        assert times == sorted(times)
        assert times[-1] <= 20.0 * phase.time_share


def test_no_two_calls_share_a_marker_or_an_identifier() -> None:
    needles = [needle for call in calls(600) for needle in call.needles]
    assert len(needles) == len(set(needles))
    assert not [n for n in needles for other in needles if n != other and n in other]


def test_every_marker_is_really_in_its_call() -> None:
    for call in calls():
        sent = call.text.encode() + call.note.encode()
        sent += b"".join(tensor.tobytes() for tensor in call.tensors.values())
        assert all(needle.encode() in sent for needle in call.needles)


def test_a_short_run_has_both_classes_and_every_protocol() -> None:
    short = calls(64, 4.0)
    assert {call.restricted for call in short} == {True, False}
    assert {call.method.protocol for call in short} == {"openai", "kserve-rest", "kserve-grpc"}


def test_a_long_run_uses_every_client_and_method() -> None:
    assert {call.method for call in calls(600)} == set(ClientMethod)


def test_a_payment_spells_its_marker_in_everyday_numbers() -> None:
    features, spelled = payment(random.Random(1))
    assert spelled.encode() in features.tobytes()
    amount, ratio, hour = features[0, :3]
    assert (128 <= amount < 256, 2 <= ratio < 4, 8 <= hour < 16) == (True, True, True)
    assert np.isfinite(features).all()


@pytest.mark.parametrize(
    ("stem", "whole"),
    [
        ("411111111111111", "4111 1111 1111 1111"),  # the usual test number
        ("401288888888188", "4012 8888 8888 1881"),
    ],
)
def test_cards_end_in_luhns_digit(stem: str, whole: str) -> None:
    assert card(stem) == whole


def test_account_numbers_have_the_check_digits_of_the_standards_example() -> None:
    assert iban("GB", "WEST12345698765432") == "GB82WEST12345698765432"


def test_nobody_shares_anything_with_anybody() -> None:
    people = crowd(random.Random(1), 1000)
    for kind in ("email", "phone", "iban", "card", "ssn"):
        assert len({getattr(person, kind) for person in people}) == 1000
