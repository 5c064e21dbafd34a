"""The sums of days are those of their entries, whatever is reported by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.accounting.ledger.database import Value
from gateway.accounting.ledger.entry import Entry
from gateway.accounting.ledger.limits import day_text
from gateway.accounting.ledger.store import _days, _grouped
from tests.unit.ledger.entries import DAY_S, NOON_S

_COUNT = st.integers(0, 10**15)
_ENTRIES = st.builds(
    Entry,
    at_s=st.floats(NOON_S - 2 * DAY_S, NOON_S + 2 * DAY_S),
    call=st.just("c"),
    tenant=st.sampled_from("ab"),
    model=st.sampled_from("mn"),
    endpoint=st.just("gpu"),
    zone=st.sampled_from(["onprem", "cloud"]),
    reason=st.just("r"),
    result=st.sampled_from(["served", "upstream_failed"]),
    restricted=st.integers(0, 1),
    nano_usd=_COUNT,
    input_tokens=_COUNT,
    output_tokens=_COUNT,
    moved_bytes=_COUNT,
    gpu_ns=_COUNT,
    cloud_nano_usd=st.none() | _COUNT,
    estimated=st.integers(0, 1),
)


def one_by_one(entries: Iterable[Entry]) -> dict[tuple[Value, ...], list[int]]:
    """As plainly as can be."""
    found: dict[tuple[Value, ...], Counter[int]] = {}
    for e in entries:
        key = (day_text(e.at_s), e.tenant, e.model, e.endpoint, e.zone, e.reason,
               int(e.restricted))  # fmt: skip
        served, compared = e.result == "served", e.cloud_nano_usd is not None
        values = (
            1, served, e.nano_usd, 0 if served else e.nano_usd, e.estimated,
            e.input_tokens + e.output_tokens, e.moved_bytes, e.gpu_ns, compared,
            e.nano_usd if compared else 0, e.gpu_ns if compared else 0, e.cloud_nano_usd or 0,
        )  # fmt: skip
        found.setdefault(key, Counter()).update(dict(enumerate(values)))
    return {key: [sums[at] for at in range(12)] for key, sums in found.items()}


@given(st.lists(_ENTRIES, max_size=40))
@settings(max_examples=150)
def test_days_have_the_sums_of_their_entries(entries: list[Entry]) -> None:
    found: dict[tuple[Value, ...], Counter[int]] = {}
    for row in _days(_grouped(entries)):  # what the table makes of them
        found.setdefault(tuple(row[:7]), Counter()).update(dict(enumerate(row[7:])))
    added = {key: [sums[at] for at in range(12)] for key, sums in found.items()}
    assert added == one_by_one(entries)
