"""Memory that tenants share is bounded, ends in time, and none of them can fill another's."""

from __future__ import annotations

from gateway.classify.conversations.shelves import EvictedEntry, Shelves


class Time:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def shelves(room: int = 4, keep_s: float = 10.0) -> tuple[Shelves[str], Time]:
    time = Time()
    return Shelves(room, keep_s, time), time


def name(number: int) -> bytes:
    return number.to_bytes(4, "big")


def test_what_was_put_is_found_by_its_own_tenant_alone() -> None:
    kept, _ = shelves()
    kept.put("a", b"k", "v")
    assert kept.get("a", b"k") == "v"
    assert kept.get("b", b"k") is None
    assert kept.get("a", b"l") is None


def test_an_entry_ends_after_its_time_and_its_room_is_free_again() -> None:
    kept, time = shelves()
    kept.put("a", b"k", "v")
    time.now_s = 9.9
    assert kept.get("a", b"k") == "v"
    time.now_s = 10.0
    assert kept.get("a", b"k") is None
    assert len(kept) == 0
    assert not kept.holds_any("a")


def test_looking_does_not_lengthen_a_life_and_putting_does() -> None:
    kept, time = shelves()
    kept.put("a", b"k", "v")
    time.now_s = 9.0
    kept.get("a", b"k")
    kept.put("a", b"l", "v")
    kept.put("a", b"l", "w")
    time.now_s = 11.0
    assert kept.get("a", b"k") is None
    assert kept.get("a", b"l") == "w"


def test_never_more_than_the_room_is_used() -> None:
    kept, _ = shelves(room=4)
    for number in range(50):
        kept.put(f"tenant {number % 7}", name(number), "v")
        assert len(kept) <= 4


def test_a_room_of_nothing_keeps_nothing() -> None:
    kept, _ = shelves(room=0)
    kept.put("a", b"k", "v")
    assert kept.get("a", b"k") is None


def test_the_entry_that_was_used_last_goes_last() -> None:
    kept, _ = shelves(room=3)
    for number in range(3):
        kept.put("a", name(number), "v")
    kept.get("a", name(0))
    kept.put("a", name(3), "v")
    assert [kept.get("a", name(n)) for n in range(4)] == ["v", None, "v", "v"]


def test_a_tenant_that_floods_makes_room_from_its_own() -> None:
    kept, _ = shelves(room=8)
    for number in range(4):
        kept.put("quiet", name(number), "v")
    for number in range(1000):
        kept.put("loud", name(number), "v")
    assert all(kept.get("quiet", name(n)) == "v" for n in range(4))


def test_a_tenant_that_comes_late_gets_its_share_of_whoever_has_most() -> None:
    kept, _ = shelves(room=8)
    for number in range(8):
        kept.put("first", name(number), "v")
    for number in range(4):
        kept.put("late", name(number), "v")
    assert [kept.get("late", name(n)) for n in range(4)] == ["v"] * 4
    assert [kept.get("first", name(n)) for n in range(8)] == [None] * 4 + ["v"] * 4


def test_a_tenant_over_its_share_makes_room_itself_and_not_its_neighbour() -> None:
    kept, _ = shelves(room=9)
    for tenant, entries in (("large", 5), ("middle", 3), ("small", 1)):
        for number in range(entries):
            kept.put(tenant, name(number), "v")
    kept.put("middle", name(3), "v")
    assert kept.get("middle", name(0)) is None
    assert all(kept.get("large", name(n)) == "v" for n in range(5))


def test_putting_says_what_was_lost_before_its_time() -> None:
    kept, time = shelves(room=1)
    assert kept.put("a", b"k", "v") is None
    time.now_s = 3.0
    assert kept.put("b", b"l", "v") == EvictedEntry("a", 10.0, b"k")


def test_what_was_over_already_is_no_loss() -> None:
    kept, time = shelves(room=1)
    kept.put("a", b"k", "v")
    time.now_s = 10.0
    assert kept.put("b", b"l", "v") is None


def test_what_is_over_is_cleared_away_as_more_comes() -> None:
    kept, time = shelves(room=100)
    for number in range(40):
        kept.put("a", name(number), "v")
    time.now_s = 10.0
    for number in range(40, 61):
        kept.put("a", name(number), "v")
    assert len(kept) == 21
