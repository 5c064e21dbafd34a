"""Who owns what: taken at once from the dead, given back after the dwell, never nobody for long."""

from __future__ import annotations

import pytest

from gateway.cluster.view import ClusterView, PeerAnnouncement
from tests.unit.spill.clock import HandClock

ORDER = ("a", "b", "c")
DWELL_S, UNCLAIMED_S = 5.0, 2.0


class Watched:
    """One gateway's view, and the clock that it goes by."""

    def __init__(self, own: str, order: tuple[str, ...] = ORDER) -> None:
        self.clock = HandClock()
        self.changes = 0
        self.view = ClusterView(
            own, order, order, self.clock, dwell_s=DWELL_S, unclaimed_s=UNCLAIMED_S,
            on_change=self._changed,
        )  # fmt: skip

    def _changed(self) -> None:
        self.changes += 1

    def hears(self, **claims: str | None) -> None:
        """What each peer claims, a letter each; None: it is dead."""
        for peer, letters in claims.items():
            if letters is None:
                self.view.lost(peer)
            else:
                self.view.heard(peer, PeerAnnouncement(frozenset(letters)))

    def after_s(self, seconds: float, **claims: str | None) -> None:
        self.clock.now_s += seconds
        self.hears(**claims)

    @property
    def claims(self) -> str:
        return "".join(sorted(self.view.announcement.claims))


def test_nothing_is_claimed_before_everybody_was_looked_at() -> None:
    a = Watched("a")
    a.hears(b="b")
    assert (a.claims, a.view.owner("a")) == ("", None)
    a.hears(c="c")
    assert (a.claims, a.view.owner("a")) == ("a", "a")


def test_each_decides_on_its_own_and_knows_who_decides_on_the_others() -> None:
    b = Watched("b")
    b.hears(a="a", c="c")
    assert b.claims == "b"
    assert [b.view.owner(x) for x in "abc"] == ["a", "b", "c"]
    assert b.view.complete


def test_the_first_that_lives_takes_over_from_a_dead_one() -> None:
    b, c = Watched("b"), Watched("c")
    b.hears(a="a", c="c")
    c.hears(a="a", b="b")
    b.hears(a=None)
    c.hears(a=None)
    assert (b.claims, c.claims) == ("ab", "c")
    c.hears(b="ab")
    assert c.view.owner("a") == "b"


def test_a_successor_that_is_dead_too_is_passed_over() -> None:
    c = Watched("c")
    c.hears(a="a", b="b")
    c.hears(a=None)
    assert c.view.owner("a") is None
    c.hears(b=None)
    assert c.claims == "abc"


def test_who_is_back_gets_its_servers_after_the_dwell_and_not_before() -> None:
    b = Watched("b")
    b.hears(a=None, c="c")
    b.hears(a="")
    b.after_s(DWELL_S - 0.1, a="")
    assert b.claims == "ab"
    b.after_s(0.2, a="")
    assert (b.claims, b.view.owner("a")) == ("b", None)
    b.after_s(0.1, a="a")
    assert b.view.owner("a") == "a"


def test_who_is_back_leaves_its_servers_to_who_stands_in() -> None:
    a = Watched("a")
    a.hears(b="ab", c="c")
    assert (a.claims, a.view.owner("a")) == ("", "b")
    a.after_s(DWELL_S * 3, b="ab", c="c")
    assert a.claims == ""
    a.hears(b="b")
    assert a.claims == "a"


def test_a_gateway_that_comes_and_goes_changes_owners_once_each_way() -> None:
    """S1: a square wave shorter than the dwell makes one change, not one a period."""
    b = Watched("b")
    b.hears(a="a", c="c")
    owners = []
    for _ in range(20):
        b.after_s(1.0, a=None)
        owners.append(b.view.owner("a"))
        b.after_s(1.0, a="")
        owners.append(b.view.owner("a"))
    assert set(owners) == {"b"}


def test_two_that_claim_the_same_both_serve_until_the_further_one_gives_way() -> None:
    b = Watched("b")
    b.hears(a=None, c="c")
    b.hears(a="a")
    assert b.view.owner("a") == "b"
    b.after_s(DWELL_S, a="a")
    assert (b.claims, b.view.owner("a")) == ("b", "a")
    a = Watched("a")
    a.hears(b=None, c="c")
    a.hears(b="ab")
    a.after_s(DWELL_S * 2, b="ab")
    assert a.claims == "a"


def test_a_third_stays_with_the_one_of_two_that_it_uses() -> None:
    c = Watched("c")
    c.hears(a="a", b="b")
    c.hears(b="ab")
    assert c.view.owner("a") == "a"
    c.hears(a="")
    assert c.view.owner("a") == "b"
    c.hears(a="a")
    assert c.view.owner("a") == "b"


def test_what_nobody_claims_for_too_long_is_taken_by_who_needs_it() -> None:
    """`a` lives and does not claim: it may see a claim that `b` cannot see."""
    b = Watched("b")
    b.hears(a="", c="c")
    assert b.view.owner("a") is None
    b.after_s(UNCLAIMED_S - 0.1, a="")
    assert b.view.owner("a") is None
    b.after_s(0.2, a="")
    assert b.view.owner("a") == "b"


class Net:
    """Three gateways that probe each other twice a second, over lines that may be cut."""

    def __init__(self) -> None:
        self.all = {name: Watched(name) for name in ORDER}
        self.cut: set[frozenset[str]] = set()
        self.ownerless = 0

    def runs(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            for name, one in self.all.items():
                one.clock.now_s += 0.5
                for peer in one.view._peers:
                    torn = frozenset((name, peer)) in self.cut
                    told = self.all[peer].view.announcement
                    one.view.lost(peer) if torn else one.view.heard(peer, told)
                one.view.settle()
            for one in self.all.values():
                self.ownerless += sum(one.view.owner(d) is None for d in ORDER)

    @property
    def changes(self) -> int:
        return sum(one.changes for one in self.all.values())


@pytest.mark.parametrize("cut", ["ab", "ac", "bc", "ab ac", "ab bc", "ac bc", "ab ac bc"])
def test_owners_stand_still_while_the_network_is_torn_and_after(cut: str) -> None:
    net = Net()
    net.runs(20)
    net.cut = {frozenset(pair) for pair in cut.split()}
    net.runs(20)  # each finds out, and takes what it needs
    changes, net.ownerless = net.changes, 0
    net.runs(300)
    assert net.changes == changes
    assert net.ownerless == 0
    net.cut = set()
    net.runs(30)
    changes, net.ownerless = net.changes, 0
    net.runs(300)
    assert net.changes == changes
    assert net.ownerless == 0
    assert [one.claims for one in net.all.values()] == list(ORDER)


def test_who_leaves_says_so_and_its_successor_takes_over_at_once() -> None:
    a, b = Watched("a"), Watched("b")
    a.hears(b="b", c="c")
    b.hears(a="a", c="c")
    a.view.leaves()
    assert a.view.announcement == PeerAnnouncement(frozenset(), leaving=True)
    assert not a.view.acts_for("a")
    b.view.heard("a", a.view.announcement)
    assert b.claims == "ab"


def test_who_leaves_and_is_alone_still_serves_its_own_calls() -> None:
    a = Watched("a")
    a.hears(b=None, c=None)
    a.view.leaves()
    assert a.view.owner("a") == "a"
    a.hears(b="ab")
    assert a.view.owner("a") == "b"


def test_who_was_stopped_itself_looks_around_before_it_decides_again() -> None:
    a = Watched("a")
    a.hears(b="b", c="c")
    a.view.was_away()
    assert (a.claims, a.view.owner("a")) == ("", None)
    a.hears(b="ab")
    assert a.claims == ""
    a.hears(c="c")
    assert (a.claims, a.view.owner("a")) == ("", "b")


def test_who_was_stopped_waits_for_nobody_who_was_dead_before() -> None:
    a = Watched("a")
    a.hears(b="b", c=None)
    a.view.was_away()
    a.hears(b="b")
    assert a.claims == "ac"
    a.hears(b=None)
    a.view.was_away()
    assert a.claims == "abc"


def test_a_gateway_without_peers_decides_on_everything() -> None:
    a = Watched("a", ("a",))
    a.view.settle()
    assert a.claims == "a"
    a.view.was_away()
    a.view.settle()
    assert a.view.owner("a") == "a"


def test_who_owns_nothing_has_nothing_to_take_over() -> None:
    b = ClusterView("b", ORDER, ("a",), HandClock(), dwell_s=DWELL_S, unclaimed_s=UNCLAIMED_S)
    for dead in ("a", "c"):
        b.lost(dead)
    assert b.announcement.claims == {"a"}
    assert b.complete


def test_every_change_of_an_owner_is_told_and_nothing_else_is() -> None:
    b = Watched("b")
    b.hears(a="a", c="c")
    before = b.changes
    b.hears(a="a", c="c")
    assert b.changes == before
    b.hears(a=None)
    assert b.changes == before + 1


@pytest.mark.parametrize("own", ORDER)
@pytest.mark.parametrize("dead", ["", "a", "b", "c", "ab", "bc", "ac"])
def test_whoever_dies_everything_has_exactly_one_owner_in_the_end(own: str, dead: str) -> None:
    views = {name: Watched(name) for name in ORDER if name not in dead}
    for _ in range(60):
        for name, watched in views.items():
            watched.clock.now_s += 0.3
            for other in ORDER:
                if other == name:
                    continue
                if other in dead:
                    watched.view.lost(other)
                else:
                    watched.view.heard(other, views[other].view.announcement)
    if own in views:
        owners = {tuple(w.view.owner(x) for x in ORDER) for w in views.values()}
        assert len(owners) == 1
        claimed = [x for w in views.values() for x in w.view.announcement.claims]
        assert sorted(claimed) == list(ORDER)
