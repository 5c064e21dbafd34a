"""Header blocks, beside the examples of RFC 7541 and another implementation."""

from __future__ import annotations

from contextlib import suppress

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocols.http2 import Code, Http2Error
from gateway.protocols.http2.hpack import TABLE_BYTES, Decoder, Encoder, Field, literal

Fields = list[Field]


def decoder(max_list_bytes: int = 1 << 16) -> Decoder[Fields | str]:
    return Decoder(lambda fields: "too large" if fields is None else fields, max_list_bytes)


GET = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/")]
WWW = (b":authority", b"www.example.com")
NO_CACHE = (b"cache-control", b"no-cache")
CUSTOM = [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/index.html"), WWW]
REQUESTS: list[Fields] = [
    [*GET, WWW],
    [*GET, WWW, NO_CACHE],
    [*CUSTOM, (b"custom-key", b"custom-value")],
]
PLAIN = (
    "828684410f7777772e6578616d706c652e636f6d",
    "828684be58086e6f2d6361636865",
    "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
)
HUFFMAN = (
    "828684418cf1e3c2e5f23a6ba0ab90f4ff",
    "828684be5886a8eb10649cbf",
    "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
)


@pytest.mark.parametrize("blocks", [PLAIN, HUFFMAN], ids=["C.3", "C.4"])
def test_the_examples_of_the_rfc(blocks: tuple[str, ...]) -> None:
    reading = decoder()
    for block, fields in zip(blocks, REQUESTS, strict=True):
        assert reading.decode(bytes.fromhex(block)) == fields


def test_the_answers_of_the_rfc_throw_out_what_the_table_has_no_room_for() -> None:
    """C.6, with a table of 256 bytes, which its first block says here."""
    reading = decoder()
    first = reading.decode(
        bytes.fromhex(
            "3fe101"
            "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff"
            "6e919d29ad171863c78f0b97c8e9ae82ae43d3"
        )
    )
    assert first[0] == (b":status", b"302")
    second = reading.decode(bytes.fromhex("4883640effc1c0bf"))
    assert second == [(b":status", b"307"), *first[1:]]
    with pytest.raises(Http2Error):  # :status 302 has gone
        reading.decode(bytes.fromhex("c2"))


names = st.sampled_from([b":path", b":status", b"a", b"grpc-status", b"x-one", b"x-two"])
values = st.one_of(st.sampled_from([b"", b"200", b"/"]), st.binary(max_size=40))
lists = st.lists(st.tuples(names, values), max_size=8)


@given(st.lists(st.tuples(lists, st.booleans(), st.sampled_from([None, 0, 64, 4096])), max_size=12))
def test_what_another_writes_is_read(calls: list[tuple[Fields, bool, int | None]]) -> None:
    writing, reading = hpack.Encoder(), decoder()
    for fields, huffman, size in calls:
        if size is not None:
            writing.header_table_size = size
        for _ in range(2):  # the second may be known by its bytes
            assert reading.decode(writing.encode(fields, huffman=huffman)) == fields


@given(st.lists(lists, min_size=1, max_size=4), st.lists(lists, min_size=1, max_size=8), st.data())
def test_what_is_written_another_reads(
    shared: list[Fields], own: list[Fields], data: st.DataObject
) -> None:
    room = data.draw(st.sampled_from([0, 40, 100, 300, TABLE_BYTES, 1 << 16]))
    writing, reading = Encoder(room), hpack.Decoder()
    reading.max_allowed_table_size = room
    if room < TABLE_BYTES:
        reading.header_table_size = TABLE_BYTES
    for mine in own:
        begins = tuple(data.draw(st.sampled_from(shared)))
        block = writing.begin(begins) + b"".join([literal(*field) for field in mine])
        found = [(n, v) for n, v in reading.decode(block, raw=True)]
        assert found == [*begins, *mine]


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(block: bytes) -> None:
    with suppress(Http2Error):
        decoder().decode(block)


@pytest.mark.parametrize(
    "block",
    [
        "80",  # no such field
        "bf",  # beyond both tables
        "40",  # ends within
        "000585",
        "ffffffffff7f",  # an integer without an end
        "003f",
        "3fe21f",  # a table larger than was offered
        "823f00",  # its size behind a field
        "00816100",  # of the Huffman code, and neither padded nor a symbol
        "0084ffffffff00",  # the end of the code within it
    ],
)
def test_what_is_no_block_is_refused(block: str) -> None:
    with pytest.raises(Http2Error):
        decoder().decode(bytes.fromhex(block))


def test_fields_that_count_too_much_are_not_kept_but_their_table_is() -> None:
    """One octet for 4 KB of field, as often as the block has room (an HPACK bomb)."""
    reading = decoder(16 * 1024)
    big = (b"bomb", b"x" * 4000)
    writing = hpack.Encoder()
    assert reading.decode(writing.encode([big], huffman=False)) == [big]
    assert reading.decode(b"\xbe" * 30) == "too large"
    assert reading.decode(b"\xbe") == [big]


def test_a_list_without_measure_is_not_read_to_its_end() -> None:
    reading = decoder(16 * 1024)
    big = (b"bomb", b"x" * 4000)
    reading.decode(hpack.Encoder().encode([big], huffman=False))
    with pytest.raises(Http2Error) as caught:
        reading.decode(b"\xbe" * 50_000)
    assert caught.value.code == Code.ENHANCE_YOUR_CALM


def test_what_no_table_can_hold_is_not_decoded_and_empties_it() -> None:
    """Beside another implementation, which decodes it."""
    reading, other = decoder(4096), hpack.Decoder()
    big = [(b"one", b"1"), (b"large", b"x" * 30_000), (b"two", b"2")]
    blocks = [hpack.Encoder().encode(big[:1]), hpack.Encoder().encode(big, huffman=True)]
    assert reading.decode(blocks[0]) == other.decode(blocks[0], raw=True) == big[:1]
    assert reading.decode(blocks[1]) == "too large"
    other.decode(blocks[1], raw=True)
    assert [*reading._table] == [*other.header_table.dynamic_entries] == [(b"two", b"2")]


def test_what_is_known_of_blocks_is_bounded_by_what_they_stand_for() -> None:
    """Twelve octets may stand for 32 KB, in as many forms as there are octets."""
    reading = decoder(32 * 1024)
    reading.decode(hpack.Encoder().encode([(b"bomb", b"x" * 4000)], huffman=False))
    for at in range(60):
        assert len(reading.decode(b"\xbe" * 8 + literal(b"n", b"%d" % at))) == 9
    known = [fields for fields in reading.known.values() if not isinstance(fields, str)]
    assert 0 < sum(len(value) for fields in known for _, value in fields) < 130 * 1024


def test_a_table_is_resized_twice_at_most() -> None:
    assert decoder().decode(b"\x20\x3f\xe1\x1f\x83") == [(b":method", b"POST")]
    with pytest.raises(Http2Error):
        decoder().decode(b"\x20\x20\x20\x83")


def test_a_block_means_something_else_when_the_table_has_changed() -> None:
    reading = decoder()
    for value in (b"one", b"two"):
        reading.decode(b"\x40" + literal(b"name", value)[1:])
        for _ in range(2):
            assert reading.decode(b"\xbe") == [(b"name", value)]


def test_fields_are_put_into_a_table_once_and_named_by_their_place_from_then_on() -> None:
    one, two, three = (b"a", b"1"), (b"a", b"2"), (b"a", b"3")
    writing, reading = Encoder(), hpack.Decoder()
    for begins in ((one, two), (three, one), (one, two), (three,), (one,), (two, three, one)) * 2:
        assert [*reading.decode(writing.begin(begins), raw=True)] == [*begins]
    assert len(reading.header_table.dynamic_entries) == 3
