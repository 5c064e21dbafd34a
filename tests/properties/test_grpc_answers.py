"""What a gRPC caller is told of an answered call is what a caller over HTTP is told of it, however
shortly it is written."""

from __future__ import annotations

from typing import Any

import hpack
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.reply import Placement
from gateway.core.types import Sensitivity, Zone
from gateway.protocols.http2.exchange import ANSWER
from gateway.protocols.http2.hpack import TABLE_BYTES, Encoder
from gateway.server import intake
from gateway.server.grpc import calls as grpc_calls
from gateway.server.intake import RequestContext

words = st.text("abc-_.0", min_size=1, max_size=40)
placements = st.builds(
    Placement,
    st.sampled_from([Zone.ONPREM, Zone.CLOUD]),
    st.sampled_from(["gpu", "away", "a-third-one"]),
    st.sampled_from(["onprem_room", "spill_cost", "failover"]),
    st.integers(1, 3),
    st.sampled_from(Sensitivity),
    st.floats(0, 1e6, allow_nan=False),
    st.sampled_from([0, 0, 3]),
    st.dictionaries(st.sampled_from(["x-ratelimit-limit-requests", "x-other"]), words, max_size=2),
)
arrivals = st.builds(
    RequestContext,
    st.one_of(st.uuids().map(str), words),
    st.integers(0, (1 << 128) - 1).map(lambda trace: f"00-{trace:032x}-{trace % 7:016x}-01"),
    st.floats(0, 1, allow_nan=False),
)


@given(st.lists(st.tuples(arrivals, placements), max_size=12), st.sampled_from([0, 200, 1 << 16]))
def test_an_answer_over_grpc_tells_what_one_over_http_does(
    calls: list[tuple[RequestContext, Placement]], table_bytes: int
) -> None:
    """Written one after the other over one connection, among other blocks."""
    writing, reading = Encoder(table_bytes), hpack.Decoder()
    reading.max_allowed_table_size = table_bytes
    if table_bytes < TABLE_BYTES:
        reading.header_table_size = TABLE_BYTES
    for arrival, placement in calls:
        reading.decode(writing.begin(ANSWER))
        shared, own = grpc_calls.answered_by(arrival, placement)
        found: Any = reading.decode(writing.begin(shared) + own)
        expected = intake.placement_headers(arrival, placement)
        assert dict(found) == {"grpc-status": "0", **expected}
        assert len(found) == len(expected) + 1
