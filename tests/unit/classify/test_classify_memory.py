"""C11: what was read before is not read again, and is never taken for something else."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.classify import ScanFailed, ScanLate, ScannersBusy
from gateway.classify.conversations import memory
from gateway.classify.conversations.memory import (
    BETWEEN,
    CONTEXT,
    Scope,
    SegmentMemory,
    SegmentRun,
    TextSegment,
    segments,
)
from gateway.classify.profile import Profile
from gateway.classify.scanner.recognizers import OVERLAP
from gateway.classify.text.extract import extract_texts
from gateway.config import ClassifySettings
from gateway.config.model_catalog import CatalogModel
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall, Finding

SCOPE = Scope("tenant", "policy", "patterns-1")
MARKER = "violet anchorage"
LONG = "The gardener waters the tulips before noon and reads a book about rivers. " * 5
TURNS = [f"{LONG}{n}" for n in range(6)]


def keeping(
    room: int = 1000, keep_s: float = 60.0, now_s: Sequence[float] = (0.0,), key: bytes = b"k" * 32
) -> SegmentMemory:
    return SegmentMemory(room, keep_s, lambda: now_s[-1], key)


def ssn_restricts(findings: Sequence[Finding]) -> bool:
    return any(f.type == "US_SSN" for f in findings)


def finding(run: SegmentRun, value: str, kind: str = "US_SSN") -> Finding:
    start = run.text.rindex(value)
    return Finding(kind, start, start + len(value), 1.0)


def learn(kept: SegmentMemory, texts: Sequence[str], scope: Scope = SCOPE) -> None:
    for run in kept.recall(scope, texts).unseen:
        kept.learn(scope, run, [], ssn_restricts)


def unseen(kept: SegmentMemory, texts: Sequence[str], scope: Scope = SCOPE) -> list[str]:
    return [run.text for run in kept.recall(scope, texts).unseen]


# What is cut, and where


def test_a_call_that_is_new_is_scanned_as_one_text() -> None:
    texts = ["a short one", *TURNS, "and", "the", "end"]
    assert unseen(keeping(), texts) == [BETWEEN.join(texts)]


@given(st.lists(st.text(max_size=400), max_size=30))
def test_segments_hold_every_text_once_and_in_order(texts: list[str]) -> None:
    assert BETWEEN.join(s.text for s in segments(texts)) == BETWEEN.join(texts)


@given(st.lists(st.text(max_size=400), max_size=20), st.lists(st.text(max_size=400), max_size=5))
def test_the_same_beginning_is_cut_alike_whatever_follows(
    texts: list[str], more: list[str]
) -> None:
    whole = segments([*texts, *more])
    alone = segments(texts)
    assert whole[: max(0, len(alone) - 1)] == alone[:-1]


def test_the_context_is_as_long_as_the_scanner_looks_back() -> None:
    assert CONTEXT >= OVERLAP
    words = [s.context for s in segments(TURNS)]
    assert words[0] == ""
    assert all(CONTEXT - 12 <= len(w) <= CONTEXT for w in words[1:])
    assert all(BETWEEN.join(TURNS[: n + 1]).endswith(w) for n, w in enumerate(words[1:]))


def test_the_context_reaches_over_short_texts() -> None:
    found = segments([LONG, "x" * 201, "account number", "945456787654"])
    assert found[2].context.endswith("x" * 201)
    assert "a book about rivers" in found[2].context


@pytest.mark.parametrize("token", ["f" * 1000, "deadbeef" * 100])
def test_a_context_never_begins_within_a_word(token: str) -> None:
    """Its end alone looks like another token."""
    assert segments([token, "next"])[1].context == ""
    assert segments([f"{token} word and more", "next"])[1].context == "word and more"


def test_writing_without_spaces_has_a_context_all_the_same() -> None:
    assert segments(["银行账户号码" * 100, "next"])[1].context == ("银行账户号码" * 100)[-CONTEXT:]


# What is remembered


def test_the_next_turn_is_scanned_alone() -> None:
    kept = keeping()
    learn(kept, TURNS[:5])
    assert kept.recall(SCOPE, TURNS[:5]).unseen == ()
    (again,) = unseen(kept, [*TURNS[:5], "And who waters the roses?"])
    assert again.endswith("And who waters the roses?")
    assert len(again) < CONTEXT + 60


def test_what_was_clear_is_clear_and_counts_what_it_counted() -> None:
    kept = keeping()
    (run,) = kept.recall(SCOPE, TURNS).unseen
    assert kept.learn(SCOPE, run, [finding(run, "tulips", "URL")], ssn_restricts) == {"URL": 1}
    again = kept.recall(SCOPE, TURNS)
    assert not again.restricted
    assert again.entities == {"URL": 1}


def test_what_was_restricted_is_restricted() -> None:
    kept = keeping()
    texts = [TURNS[0], f"{LONG} 536-90-4399", TURNS[1]]
    (run,) = kept.recall(SCOPE, texts).unseen
    kept.learn(SCOPE, run, [finding(run, "536-90-4399")], ssn_restricts)
    again = kept.recall(SCOPE, texts)
    assert again.restricted
    assert again.entities == {"US_SSN": 1}


def test_a_scan_that_stopped_at_a_finding_says_nothing_of_the_rest() -> None:
    kept = keeping()
    texts = [TURNS[0], f"{LONG} 536-90-4399", TURNS[1]]
    (run,) = kept.recall(SCOPE, texts).unseen
    kept.learn(SCOPE, run, [finding(run, "536-90-4399")], ssn_restricts)
    assert len(kept.recall(SCOPE, texts).unseen) == 2
    assert len(kept.recall(SCOPE, [TURNS[0]]).unseen) == 1


def test_a_finding_in_the_context_restricts_the_segment_behind_it() -> None:
    """Only what follows made it one, or it would have been found before."""
    kept = keeping()
    learn(kept, [f"{LONG} 945456787654"])
    texts = [f"{LONG} 945456787654", f"was my bank account. {LONG}"]
    (run,) = kept.recall(SCOPE, texts).unseen
    assert kept.learn(SCOPE, run, [finding(run, "945456787654")], ssn_restricts) == {"US_SSN": 1}
    assert kept.recall(SCOPE, texts).restricted


def test_a_finding_in_the_context_is_not_counted_twice() -> None:
    kept = keeping()
    texts = [f"{LONG} www.rivers.example", f"{LONG} the end"]
    (first,) = kept.recall(SCOPE, texts[:1]).unseen
    kept.learn(SCOPE, first, [finding(first, "www.rivers.example", "URL")], ssn_restricts)
    (second,) = kept.recall(SCOPE, texts).unseen
    assert "www.rivers.example" in second.text
    found = [finding(second, "www.rivers.example", "URL")]
    assert kept.learn(SCOPE, second, found, ssn_restricts) == {}


@pytest.mark.parametrize(
    "other",
    [
        Scope("another", "policy", "patterns-1"),
        Scope("tenant", "reloaded", "patterns-1"),
        Scope("tenant", "policy", "patterns-2"),
        Scope("tenant", "policy", "names-1"),
        Scope("tenant", "policyp", "atterns-1"),
    ],
)
def test_verdicts_of_another_tenant_policy_or_detector_are_others(other: Scope) -> None:
    kept = keeping()
    learn(kept, TURNS)
    assert kept.recall(SCOPE, TURNS).unseen == ()
    assert unseen(kept, TURNS, other) == [BETWEEN.join(TURNS)]


def test_two_tenants_never_share_an_entry_even_on_one_shelf() -> None:
    """The tenant is in the digest, not only in where it is kept."""
    kept = keeping()
    one = memory._digest(kept._hasher(SCOPE), TextSegment("", "x"))
    other = memory._digest(
        kept._hasher(Scope("another", "policy", "patterns-1")), TextSegment("", "x")
    )
    assert one != other


def test_a_verdict_ends_in_time() -> None:
    now_s = [0.0]
    kept = keeping(keep_s=60.0, now_s=now_s)
    learn(kept, TURNS)
    now_s.append(60.0)
    assert unseen(kept, TURNS) == [BETWEEN.join(TURNS)]


def test_memory_is_bounded() -> None:
    kept = keeping(room=10)
    for n in range(100):
        learn(kept, [f"{n} {LONG}"])
    assert len(kept._shelves) == 10


def test_digests_cannot_be_tried_out_without_the_key_of_the_process() -> None:
    one, other = keeping(key=b"1" * 32), keeping(key=b"2" * 32)
    assert memory._digest(one._hasher(SCOPE), TextSegment("", "x")) != memory._digest(
        other._hasher(SCOPE), TextSegment("", "x")
    )


def test_no_text_is_kept() -> None:
    kept = keeping()
    learn(kept, [f"{LONG} {MARKER}"])
    todo: list[Any] = [kept]
    seen: set[int] = set()
    while todo:
        found = todo.pop()
        if id(found) in seen or isinstance(found, type) or callable(found):
            continue
        seen.add(id(found))
        assert not (isinstance(found, str) and MARKER in found)
        assert not (isinstance(found, bytes) and MARKER.encode() in found)
        todo += gc.get_referents(found)
    assert len(seen) > 5


# Values that stand over a border (C5)


def say(*texts: str) -> DocumentCall:
    messages = [{"role": "user", "content": text} for text in texts]
    return DocumentCall(CHAT, {"model": "chat", "messages": messages})


def extracted(call: DocumentCall) -> list[str]:
    return extract_texts(call, CatalogModel("chat", "generate", ("gpu",)), 1 << 20)


def test_a_value_over_two_turns_is_read_although_both_halves_are_known() -> None:
    kept = keeping()
    first, second = f"{LONG} my card is 4111 1111", f"1111 1111 it says. {LONG}"
    learn(kept, extracted(say(first)))
    learn(kept, extracted(say(second)))
    both = extracted(say(first, second))
    assert any("4111 1111" in t and "1111 1111 it" not in t for t in both)
    assert any("4111 11111111 1111" in text for text in unseen(kept, both))


def test_a_word_before_a_known_number_is_read_with_it() -> None:
    """Alone the number says nothing; behind that word it does."""
    kept = keeping()
    number = f"945456787654 and {LONG}"
    learn(kept, [number])
    learn(kept, [f"{LONG} my bank account:"])
    (text,) = unseen(kept, [f"{LONG} my bank account:", number])
    assert "my bank account:" + BETWEEN + "945456787654" in text


def test_however_a_conversation_grows_every_neighbourhood_was_read() -> None:
    """Each stretch that a scanner could match across was in one of the texts that it was given."""
    pick = random.Random(3)
    words = [f"w{n}" for n in range(400)]
    for _ in range(60):
        kept = keeping()
        given: list[str] = []
        texts: list[str] = []
        for _ in range(5):
            for _ in range(pick.randrange(1, 6)):
                texts.append(" ".join(pick.choices(words, k=pick.randrange(1, 90))))
            given += unseen(kept, texts)
            learn(kept, texts)
        whole = BETWEEN.join(texts)
        for at in range(0, len(whole) - 150, 7):
            assert any(whole[at : at + 150] in text for text in given)


# Scanning what is not known

PROFILE = Profile.from_settings(ClassifySettings(restrict=("US_SSN",)))


class Answers:
    """Answers scans in turn, or raises; keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[list[str]] = []

    async def __call__(self, texts: Sequence[str]) -> list[list[Finding]]:
        self.asked.append(list(texts))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        found: list[list[Finding]] = answer
        return found


def scanned(kept: SegmentMemory, answers: Answers, texts: Sequence[str] = TURNS) -> Any:
    return asyncio.run(kept.scan(SCOPE, texts, answers, PROFILE))


def test_what_is_known_is_not_scanned() -> None:
    kept, answers = keeping(), Answers([[Finding("URL", 0, 3, 0.9)]], [[]])
    assert scanned(kept, answers) == (False, {"URL": 1})
    assert scanned(kept, answers) == (False, {"URL": 1})
    assert scanned(kept, answers, [*TURNS, "More?"]) == (False, {"URL": 1})
    assert [len(texts) for texts in answers.asked] == [1, 1]
    assert len(answers.asked[1][0]) < len(LONG)


def test_what_was_restricted_before_is_not_scanned_either() -> None:
    kept, answers = keeping(), Answers([[Finding("US_SSN", 0, 3, 0.9)]])
    assert scanned(kept, answers) == (True, {"US_SSN": 1})
    assert scanned(kept, answers) == (True, {"US_SSN": 1})
    assert len(answers.asked) == 1


def test_findings_below_the_threshold_count_for_nothing() -> None:
    kept, answers = keeping(), Answers([[Finding("US_SSN", 0, 3, 0.1), Finding("URL", 0, 3, 0.1)]])
    assert scanned(kept, answers) == (False, {})


@pytest.mark.parametrize(
    "trouble",
    [ScanLate(), ScanFailed(), ScannersBusy(), RuntimeError(), [], [[], []], None, [None]],
)
def test_a_scan_that_came_to_no_good_end_is_not_remembered(trouble: Any) -> None:
    kept, answers = keeping(), Answers(trouble, [[]])
    with pytest.raises(Exception):  # noqa: B017, PT011 - whichever; the classifier takes them all
        scanned(kept, answers)
    assert scanned(kept, answers) == (False, {})
    assert answers.asked[0] == answers.asked[1] == [BETWEEN.join(TURNS)]
