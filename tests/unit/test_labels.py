"""B6: labels of tenants are so many, and then one for the rest."""

from __future__ import annotations

from gateway.accounting.labels import MOST, OTHER, CappedLabels


def test_beyond_so_many_all_share_one_label() -> None:
    labels = CappedLabels()
    own = {labels.of(f"tenant-{at}") for at in range(MOST)}
    assert len(own) == MOST == 1000
    assert {labels.of(f"late-{at}") for at in range(10_000)} == {OTHER}
    assert labels.of("tenant-7") == "tenant-7", "who has one keeps it"
