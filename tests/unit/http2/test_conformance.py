# ruff: noqa: E501 - a table, a case a line
"""The gRPC front against RFC 9113 and RFC 7541, section by section, as a caller sees it.

Each case sends frames on a fresh connection and says how the RFC has a server treat them: the
connection ends with a GOAWAY of a code, a stream ends with an RST_STREAM of a code while the
connection goes on, or the call is answered. Where the RFC gives a choice, both codes stand there.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from gateway.core.reply import InferenceReply
from gateway.core.types import InferenceRequest
from gateway.protocols.http2 import Code
from gateway.protocols.http2.bounds import FRAME_BYTES
from tests.unit.grpc_rig import infer_request, infer_response, reply, running_front
from tests.unit.http2.peers import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITISED,
    PRIORITY,
    PUSH,
    RST,
    SETTINGS,
    WINDOW,
    Fields,
    Peer,
    caller,
    frame,
    message,
    number,
    request,
    settings,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

CALL = message(infer_request(call="answered").SerializeToString())
WAITS = message(infer_request(call="waits").SerializeToString())
ANSWER = infer_response("answered").SerializeToString()
LAST = 2**31 - 1
MAX_WINDOW = 2**31 - 1
WHOLE = END_HEADERS | END_STREAM


@dataclass(frozen=True)
class ConnectionEnds:
    """The connection ends with a GOAWAY of one of these codes."""

    codes: tuple[Code, ...]


@dataclass(frozen=True)
class StreamEnds:
    """The stream ends with an RST_STREAM of one of these codes; another call is answered."""

    codes: tuple[Code, ...]
    stream: int = 1


@dataclass(frozen=True)
class Answered:
    """The call on the stream is answered."""

    stream: int = 1


@dataclass(frozen=True)
class Ignored:
    """Nothing happens: another call is answered."""


Verdict = ConnectionEnds | StreamEnds | Answered | Ignored
Frames = Callable[[Peer], bytes]


@dataclass(frozen=True)
class Case:
    name: str  # the section, and what is sent
    frames: Frames
    verdict: Verdict
    later: Frames | None = None  # once the first frames have been read


def connection_error(*codes: Code) -> ConnectionEnds:
    return ConnectionEnds(codes)


def stream_error(*codes: Code, stream: int = 1) -> StreamEnds:
    return StreamEnds(codes, stream)


PROTOCOL = connection_error(Code.PROTOCOL_ERROR)
FRAME_SIZE = connection_error(Code.FRAME_SIZE_ERROR)
FLOW = connection_error(Code.FLOW_CONTROL_ERROR)
COMPRESSION = connection_error(Code.COMPRESSION_ERROR)
CLOSED = connection_error(Code.STREAM_CLOSED)
MALFORMED = stream_error(Code.PROTOCOL_ERROR)


def fields(*, without: str = "", **changed: str) -> Fields:
    """Of a usual request; `changed` by the name without its colon."""
    usual = [(name, changed.get(name.lstrip(":"), value)) for name, value in request()]
    return [(name, value) for name, value in usual if name != without]


def open_call(p: Peer, stream: int = 1, *more: tuple[str, str]) -> bytes:
    """A request whose data has yet to come."""
    return p.head(stream, request() + list(more))


def waiting_call(p: Peer, stream: int = 1) -> bytes:
    """A whole request that the gateway does not answer: the stream is half-closed (remote)."""
    return p.head(stream, request()) + frame(DATA, END_STREAM, stream, WAITS)


def data(stream: int = 1, content: bytes = CALL, flags: int = END_STREAM) -> bytes:
    return frame(DATA, flags, stream, content)


def whole_call(p: Peer, stream: int = 1) -> bytes:
    return open_call(p, stream) + data(stream)


def malformed(name: str, make: Callable[[], Fields]) -> Case:
    return Case(name, lambda p: p.head(1, make()) + data(), MALFORMED)


def setting(*pairs: tuple[int, int], flags: int = 0, stream: int = 0) -> bytes:
    payload = b"".join(struct.pack(">HI", name, value) for name, value in pairs)
    return frame(SETTINGS, flags, stream, payload)


# Representations of RFC 7541 that stand for a usual request, name by name.
_STATIC = b"\x83\x86"  # :method POST, :scheme http


def literal(prefix: int, name: bytes, value: bytes) -> bytes:
    """With a new name, of fewer than 127 octets each."""
    return bytes((prefix, len(name))) + name + bytes((len(value),)) + value


def spelled(extra: bytes = b"", before: bytes = b"", prefix: int = 0x00) -> bytes:
    """A request's block with every field as a literal of this kind, and `extra` behind it."""
    rest = [(n.encode(), v.encode()) for n, v in request() if n not in (":method", ":scheme")]
    return before + _STATIC + b"".join(literal(prefix, *each) for each in rest) + extra


def block(content: bytes, stream: int = 1) -> bytes:
    return frame(HEADERS, END_HEADERS, stream, content)


def spelled_case(name: str, content: Callable[[], bytes], verdict: Verdict) -> Case:
    return Case(name, lambda p: block(content()) + data(), verdict)


CASES = [
    # RFC 9113, section 3.4
    Case("3.4 a call behind the preface", whole_call, Answered()),
    Case("3.4 an empty SETTINGS again", lambda p: setting() + whole_call(p), Answered()),
    # 4.1
    Case("4.1 a frame of an unknown type", lambda p: frame(0x16, 0, 0, bytes(8)), Ignored()),
    Case("4.1 an unknown type on a stream", lambda p: open_call(p) + frame(0xF0, 0xFF, 1, b"x") + data(), Answered()),
    Case("4.1 undefined flags", lambda p: frame(PING, 0x16, 0, bytes(8)) + whole_call(p), Answered()),
    Case("4.1 undefined flags of DATA", lambda p: open_call(p) + data(flags=END_STREAM | 0xF6), Answered()),
    Case("4.1 the reserved bit", lambda p: frame(PING, 0, 1 << 31, bytes(8)) + whole_call(p), Answered()),
    Case("4.1 the reserved bit of a stream", lambda p: frame(HEADERS, END_HEADERS, 1 | 1 << 31, p.block(request())) + data(), Answered()),
    # 4.2
    Case("4.2 DATA of 2^14 octets", lambda p: open_call(p) + frame(DATA, 0, 1, message(bytes(2**15))[:2**14]), Ignored()),
    Case("4.2 DATA over SETTINGS_MAX_FRAME_SIZE", lambda p: open_call(p) + frame(DATA, 0, 1, bytes(FRAME_BYTES + 1)), FRAME_SIZE),
    Case("4.2 HEADERS over SETTINGS_MAX_FRAME_SIZE", lambda p: frame(HEADERS, END_HEADERS, 1, bytes(FRAME_BYTES + 1)), FRAME_SIZE),
    Case("4.2 an unknown type over SETTINGS_MAX_FRAME_SIZE", lambda p: frame(0x77, 0, 0, bytes(FRAME_BYTES + 1)), FRAME_SIZE),
    # 4.3
    Case("4.3 a block that is no HPACK", lambda p: block(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), COMPRESSION),
    Case("4.3 PRIORITY within a block", lambda p: frame(HEADERS, 0, 1, p.block(request())) + frame(PRIORITY, 0, 1, bytes(5)), PROTOCOL),
    Case("4.3 HEADERS of another stream within a block", lambda p: frame(HEADERS, 0, 1, p.block(request())) + p.head(3, request()), PROTOCOL),
    Case("4.3 HEADERS of the same stream within a block", lambda p: frame(HEADERS, 0, 1, p.block(request())) + p.head(1, request()), PROTOCOL),
    Case("4.3 DATA within a block", lambda p: frame(HEADERS, 0, 1, p.block(request())) + data(), PROTOCOL),
    Case("4.3 SETTINGS within a block", lambda p: frame(HEADERS, 0, 1, p.block(request())) + settings(), PROTOCOL),
    Case("4.3 PING within a block", lambda p: frame(HEADERS, 0, 1, p.block(request())) + frame(PING, 0, 0, bytes(8)), PROTOCOL),
    Case("4.3 CONTINUATION of another stream", lambda p: frame(HEADERS, 0, 1, p.block(request())) + frame(CONTINUATION, END_HEADERS, 3), PROTOCOL),
    # 5.1, idle
    Case("5.1 idle: DATA", lambda p: data(), PROTOCOL),
    Case("5.1 idle: RST_STREAM", lambda p: frame(RST, 0, 1, number(8)), PROTOCOL),
    Case("5.1 idle: WINDOW_UPDATE", lambda p: frame(WINDOW, 0, 1, number(100)), PROTOCOL),
    Case("5.1 idle: CONTINUATION", lambda p: frame(CONTINUATION, END_HEADERS, 1, p.block(request())), PROTOCOL),
    Case("5.1 idle: PRIORITY", lambda p: frame(PRIORITY, 0, 1, number(0) + b"\x10") + whole_call(p), Answered()),
    Case("5.1 idle: PRIORITY of a later stream", lambda p: frame(PRIORITY, 0, 9, number(0) + b"\x10") + whole_call(p), Answered()),
    Case("5.1 idle: DATA of an even stream", lambda p: data(2), PROTOCOL),
    Case("5.1 idle: WINDOW_UPDATE of an even stream", lambda p: frame(WINDOW, 0, 2, number(1)), PROTOCOL),
    Case("5.1 idle: RST_STREAM of an even stream", lambda p: frame(RST, 0, 2, number(8)), PROTOCOL),
    # 5.1, half-closed (remote)
    Case("5.1 half-closed: DATA", lambda p: waiting_call(p) + data(), stream_error(Code.STREAM_CLOSED)),
    Case("5.1 half-closed: empty DATA", lambda p: waiting_call(p) + data(content=b"", flags=0), stream_error(Code.STREAM_CLOSED)),
    Case("5.1 half-closed: HEADERS", lambda p: waiting_call(p) + p.head(1, request(), WHOLE), stream_error(Code.STREAM_CLOSED)),
    Case("5.1 half-closed: trailers", lambda p: waiting_call(p) + p.head(1, [("x-end", "1")], WHOLE), stream_error(Code.STREAM_CLOSED)),
    Case("5.1 half-closed: CONTINUATION", lambda p: waiting_call(p) + frame(CONTINUATION, END_HEADERS, 1), connection_error(Code.STREAM_CLOSED, Code.PROTOCOL_ERROR)),
    Case("5.1 half-closed: WINDOW_UPDATE", lambda p: waiting_call(p) + frame(WINDOW, 0, 1, number(9)), Ignored()),
    Case("5.1 half-closed: PRIORITY", lambda p: waiting_call(p) + frame(PRIORITY, 0, 1, bytes(5)), Ignored()),
    Case("5.1 half-closed: RST_STREAM", lambda p: waiting_call(p) + frame(RST, 0, 1, number(8)), Ignored()),
    # 5.1, closed by an RST_STREAM of the caller's
    Case("5.1 reset: DATA", lambda p: open_call(p) + frame(RST, 0, 1, number(8)) + data(), connection_error(Code.STREAM_CLOSED)),
    Case("5.1 reset: HEADERS", lambda p: open_call(p) + frame(RST, 0, 1, number(8)) + p.head(1, request(), WHOLE), connection_error(Code.STREAM_CLOSED)),
    Case("5.1 reset: CONTINUATION", lambda p: open_call(p) + frame(RST, 0, 1, number(8)) + frame(CONTINUATION, END_HEADERS, 1), connection_error(Code.STREAM_CLOSED, Code.PROTOCOL_ERROR)),
    Case("5.1 reset: WINDOW_UPDATE", lambda p: open_call(p) + frame(RST, 0, 1, number(8)) + frame(WINDOW, 0, 1, number(8)), Ignored()),
    Case("5.1 reset: RST_STREAM", lambda p: open_call(p) + frame(RST, 0, 1, number(8)) * 2, Ignored()),
    Case("5.1 reset: PRIORITY", lambda p: open_call(p) + frame(RST, 0, 1, number(8)) + frame(PRIORITY, 0, 1, bytes(5)), Ignored()),
    # 5.1, closed by both
    Case("5.1 closed: DATA", whole_call, connection_error(Code.STREAM_CLOSED), lambda p: data()),
    Case("5.1 closed: HEADERS", whole_call, connection_error(Code.STREAM_CLOSED), lambda p: p.head(1, request(), WHOLE)),
    Case("5.1 closed: CONTINUATION", whole_call, connection_error(Code.STREAM_CLOSED, Code.PROTOCOL_ERROR), lambda p: frame(CONTINUATION, END_HEADERS, 1)),
    Case("5.1 closed: WINDOW_UPDATE", whole_call, Ignored(), lambda p: frame(WINDOW, 0, 1, number(8))),
    Case("5.1 closed: RST_STREAM", whole_call, Ignored(), lambda p: frame(RST, 0, 1, number(8))),
    Case("5.1 closed: PRIORITY", whole_call, Ignored(), lambda p: frame(PRIORITY, 0, 1, bytes(5))),
    # 5.1, closed by an RST_STREAM of the gateway's: what is under way is thrown away
    Case("5.1 refused: DATA under way", lambda p: p.head(1, fields(without=":path")) + data(flags=0) + data(), MALFORMED),
    Case("5.1 refused: DATA behind its end", lambda p: p.head(1, fields(without=":path"), WHOLE) + data(), connection_error(Code.STREAM_CLOSED)),
    Case("5.1 refused: trailers under way", lambda p: p.head(1, fields(without=":path")) + p.head(1, [("x-end", "1")], WHOLE), MALFORMED),
    # 5.1.1
    Case("5.1.1 an even stream", lambda p: whole_call(p, 2), PROTOCOL),
    Case("5.1.1 a lower stream than before", lambda p: whole_call(p, 5) + whole_call(p, 3), PROTOCOL),
    Case("5.1.1 streams may be left out", lambda p: whole_call(p, 7), Answered(7)),
    Case("5.1.1 DATA of a stream that was left out", lambda p: whole_call(p, 5) + data(3), connection_error(Code.PROTOCOL_ERROR, Code.STREAM_CLOSED)),
    Case("5.1.1 the last stream", lambda p: whole_call(p, LAST), Answered(LAST)),
    # 5.3
    Case("5.3.1 HEADERS that depend on their own stream", lambda p: frame(HEADERS, END_HEADERS | PRIORITISED, 1, number(1) + b"\x10" + p.block(request())) + data(), MALFORMED),
    Case("5.3.1 PRIORITY that depends on its own stream", lambda p: open_call(p) + frame(PRIORITY, 0, 1, number(1) + b"\x10"), MALFORMED),
    Case("5.3.1 an exclusive dependency", lambda p: frame(PRIORITY, 0, 1, number(1 << 31) + b"\xff") + whole_call(p), Answered()),
    Case("5.3 the priority of a later stream", lambda p: frame(PRIORITY, 0, 3, number(1) + b"\x10") + whole_call(p), Answered()),
    # 5.4.1
    Case("5.4.1 a GOAWAY before the end", lambda p: frame(PING, 0, 0, bytes(6)), FRAME_SIZE),
    # 5.5
    Case("5.5 an unknown frame", lambda p: frame(0xFF, 0, 0, bytes(64)) + whole_call(p), Answered()),
    Case("5.5 an unknown frame within a block", lambda p: frame(HEADERS, 0, 1, p.block(request())) + frame(0xFF, 0, 1, bytes(8)), PROTOCOL),
    Case("5.5 an unknown setting", lambda p: setting((0xFF, 1), (0x10, 7)) + whole_call(p), Answered()),
    # 6.1
    Case("6.1 DATA of no stream", lambda p: data(0), PROTOCOL),
    Case("6.1 padded DATA", lambda p: open_call(p) + data(flags=END_STREAM | PADDED, content=b"\x06" + CALL + bytes(6)), Answered()),
    Case("6.1 DATA in pieces", lambda p: open_call(p) + data(flags=0, content=CALL[:7]) + data(content=CALL[7:]), Answered()),
    Case("6.1 padding as long as its frame", lambda p: open_call(p) + data(flags=END_STREAM | PADDED, content=b"\x05" + bytes(4)), PROTOCOL),
    Case("6.1 padding longer than its frame", lambda p: open_call(p) + data(flags=END_STREAM | PADDED, content=b"\xff" + bytes(4)), PROTOCOL),
    Case("6.1 padded DATA without the length of the padding", lambda p: open_call(p) + data(flags=END_STREAM | PADDED, content=b""), FRAME_SIZE),
    # 6.2
    Case("6.2 HEADERS of no stream", lambda p: p.head(0, request()), PROTOCOL),
    Case("6.2 padded HEADERS", lambda p: frame(HEADERS, END_HEADERS | PADDED, 1, b"\x04" + p.block(request()) + bytes(4)) + data(), Answered()),
    Case("6.2 HEADERS with a priority", lambda p: frame(HEADERS, END_HEADERS | PRIORITISED, 1, number(0) + b"\xff" + p.block(request())) + data(), Answered()),
    Case("6.2 padding as long as its frame", lambda p: frame(HEADERS, WHOLE | PADDED, 1, b"\x05" + bytes(4)), PROTOCOL),
    Case("6.2 padding longer than its frame", lambda p: frame(HEADERS, WHOLE | PADDED, 1, b"\xff" + p.block(request())), PROTOCOL),
    Case("6.2 padding over the priority", lambda p: frame(HEADERS, WHOLE | PADDED | PRIORITISED, 1, b"\x04" + number(0) + b"\x10" + bytes(3)), PROTOCOL),
    Case("6.2 HEADERS that end within their priority", lambda p: frame(HEADERS, WHOLE | PRIORITISED, 1, bytes(3)), FRAME_SIZE),
    # 6.3
    Case("6.3 PRIORITY of no stream", lambda p: frame(PRIORITY, 0, 0, bytes(5)), PROTOCOL),
    Case("6.3 PRIORITY of 4 octets", lambda p: open_call(p) + frame(PRIORITY, 0, 1, bytes(4)), stream_error(Code.FRAME_SIZE_ERROR)),
    Case("6.3 PRIORITY of 6 octets", lambda p: open_call(p) + frame(PRIORITY, 0, 1, bytes(6)), stream_error(Code.FRAME_SIZE_ERROR)),
    # 6.4
    Case("6.4 RST_STREAM of no stream", lambda p: frame(RST, 0, 0, number(8)), PROTOCOL),
    Case("6.4 RST_STREAM of 3 octets", lambda p: open_call(p) + frame(RST, 0, 1, bytes(3)), FRAME_SIZE),
    Case("6.4 RST_STREAM of 5 octets", lambda p: open_call(p) + frame(RST, 0, 1, bytes(5)), FRAME_SIZE),
    Case("6.4 RST_STREAM ends its call alone", lambda p: open_call(p) + frame(RST, 0, 1, number(8)), Ignored()),
    # 6.5
    Case("6.5 an ACK with a payload", lambda p: setting((3, 9), flags=ACK), FRAME_SIZE),
    Case("6.5 SETTINGS of a stream", lambda p: setting((3, 9), stream=1), PROTOCOL),
    Case("6.5 SETTINGS of 3 octets", lambda p: frame(SETTINGS, 0, 0, bytes(3)), FRAME_SIZE),
    Case("6.5 SETTINGS of 7 octets", lambda p: frame(SETTINGS, 0, 0, bytes(7)), FRAME_SIZE),
    Case("6.5.2 ENABLE_PUSH of 2", lambda p: setting((2, 2)), PROTOCOL),
    Case("6.5.2 ENABLE_PUSH of 1", lambda p: setting((2, 1)) + whole_call(p), Answered()),
    Case("6.5.2 INITIAL_WINDOW_SIZE over 2^31-1", lambda p: setting((4, MAX_WINDOW + 1)), FLOW),
    Case("6.5.2 MAX_FRAME_SIZE under 2^14", lambda p: setting((5, 2**14 - 1)), PROTOCOL),
    Case("6.5.2 MAX_FRAME_SIZE over 2^24-1", lambda p: setting((5, 2**24)), PROTOCOL),
    Case("6.5.2 MAX_FRAME_SIZE of 2^24-1", lambda p: setting((5, 2**24 - 1)) + whole_call(p), Answered()),
    Case("6.5.2 MAX_CONCURRENT_STREAMS of 0", lambda p: setting((3, 0)) + whole_call(p), Answered()),
    Case("6.5.2 HEADER_TABLE_SIZE of 0", lambda p: setting((1, 0)) + whole_call(p), Answered()),
    # 6.6
    Case("6.6 PUSH_PROMISE", lambda p: open_call(p) + frame(PUSH, END_HEADERS, 1, number(2) + p.block(request())), PROTOCOL),
    # 6.7
    Case("6.7 PING of a stream", lambda p: frame(PING, 0, 1, bytes(8)), PROTOCOL),
    Case("6.7 PING of 6 octets", lambda p: frame(PING, 0, 0, bytes(6)), FRAME_SIZE),
    Case("6.7 PING of 9 octets", lambda p: frame(PING, 0, 0, bytes(9)), FRAME_SIZE),
    # 6.8
    Case("6.8 GOAWAY of a stream", lambda p: frame(GOAWAY, 0, 1, bytes(8)), PROTOCOL),
    Case("6.8 GOAWAY of 7 octets", lambda p: frame(GOAWAY, 0, 0, bytes(7)), FRAME_SIZE),
    Case("6.8 a GOAWAY does not end calls", lambda p: open_call(p) + frame(GOAWAY, 0, 0, bytes(8)) + data(), Answered()),
    # 6.9
    Case("6.9 WINDOW_UPDATE of 0", lambda p: frame(WINDOW, 0, 0, number(0)), PROTOCOL),
    Case("6.9 WINDOW_UPDATE of 0 on a stream", lambda p: open_call(p) + frame(WINDOW, 0, 1, number(0)), MALFORMED),
    Case("6.9 WINDOW_UPDATE of 3 octets", lambda p: frame(WINDOW, 0, 0, bytes(3)), FRAME_SIZE),
    Case("6.9 WINDOW_UPDATE of 5 octets", lambda p: frame(WINDOW, 0, 0, bytes(5)), FRAME_SIZE),
    Case("6.9 the reserved bit of an increment", lambda p: frame(WINDOW, 0, 0, number(1 << 31 | 1)) + whole_call(p), Answered()),
    Case("6.9.1 a window over 2^31-1", lambda p: frame(WINDOW, 0, 0, number(MAX_WINDOW)) * 2, FLOW),
    Case("6.9.1 a stream's window over 2^31-1", lambda p: open_call(p) + frame(WINDOW, 0, 1, number(MAX_WINDOW)) * 2, stream_error(Code.FLOW_CONTROL_ERROR)),
    Case("6.9.2 SETTINGS that widen a stream's window over 2^31-1", lambda p: open_call(p) + frame(WINDOW, 0, 1, number(MAX_WINDOW - 65_535)) + setting((4, 65_536)), FLOW),
    Case("6.9.2 SETTINGS that widen the window over 2^31-1", lambda p: setting((4, MAX_WINDOW + 1)), FLOW),
    # 6.10
    Case("6.10 a CONTINUATION", lambda p: (lambda b: frame(HEADERS, 0, 1, b[:9]) + frame(CONTINUATION, END_HEADERS, 1, b[9:]))(p.block(request())) + data(), Answered()),
    Case("6.10 many CONTINUATIONs", lambda p: (lambda b: frame(HEADERS, 0, 1, b[:9]) + b"".join(frame(CONTINUATION, 0, 1, b[at : at + 9]) for at in range(9, 90, 9)) + frame(CONTINUATION, END_HEADERS, 1, b[90:]))(p.block(request())) + data(), Answered()),
    Case("6.10 other frames behind a CONTINUATION", lambda p: frame(HEADERS, 0, 1, p.block(request())) + frame(CONTINUATION, 0, 1) + data(), PROTOCOL),
    Case("6.10 a CONTINUATION of no stream", lambda p: frame(HEADERS, 0, 1, p.block(request())) + frame(CONTINUATION, END_HEADERS, 0), PROTOCOL),
    Case("6.10 a CONTINUATION behind END_HEADERS", lambda p: open_call(p) + frame(CONTINUATION, END_HEADERS, 1), PROTOCOL),
    Case("6.10 a CONTINUATION behind the last one", lambda p: frame(HEADERS, 0, 1, p.block(request())) + frame(CONTINUATION, END_HEADERS, 1) * 2, PROTOCOL),
    Case("6.10 a CONTINUATION behind DATA", lambda p: open_call(p) + data(flags=0, content=CALL[:7]) + frame(CONTINUATION, END_HEADERS, 1), PROTOCOL),
    # 7
    Case("7 an unknown code of GOAWAY", lambda p: frame(GOAWAY, 0, 0, number(0) + number(0xFF)) + frame(PING, 0, 0, bytes(8)), Ignored()),
    Case("7 an unknown code of RST_STREAM", lambda p: open_call(p) + frame(RST, 0, 1, number(0xFF)), Ignored()),
    # 8.1
    Case("8.1 a second HEADERS without END_STREAM", lambda p: open_call(p) + p.head(1, [("x-end", "1")]), MALFORMED),
    Case("8.1 trailers", lambda p: open_call(p) + data(flags=0) + p.head(1, [("x-end", "1")], WHOLE), Answered()),
    Case("8.1 trailers with a pseudo-header", lambda p: open_call(p) + data(flags=0) + p.head(1, [(":method", "POST"), ("x-end", "1")], WHOLE), MALFORMED),
    Case("8.1.1 content-length over the data", lambda p: open_call(p, 1, ("content-length", str(len(CALL) + 1))) + data(), MALFORMED),
    Case("8.1.1 content-length under the data", lambda p: open_call(p, 1, ("content-length", str(len(CALL) - 1))) + data(), MALFORMED),
    Case("8.1.1 content-length over data in pieces", lambda p: open_call(p, 1, ("content-length", str(len(CALL) + 1))) + data(flags=0, content=CALL[:7]) + data(content=CALL[7:]), MALFORMED),
    Case("8.1.1 content-length and no data", lambda p: p.head(1, [*request(), ("content-length", "5")], WHOLE), MALFORMED),
    Case("8.1.1 content-length over data and trailers", lambda p: open_call(p, 1, ("content-length", str(len(CALL) + 1))) + data(flags=0) + p.head(1, [("x-end", "1")], WHOLE), MALFORMED),
    Case("8.1.1 content-length as it is", lambda p: open_call(p, 1, ("content-length", str(len(CALL)))) + data(), Answered()),
    malformed("8.1.1 content-length that is no number", lambda: [*request(), ("content-length", "+5")]),
    malformed("8.1.1 content-length twice", lambda: [*request(), ("content-length", "5"), ("content-length", "6")]),
    # 8.2
    malformed("8.2.1 a name in upper case", lambda: [*request(), ("X-Test", "ok")]),
    malformed("8.2.1 a name with a space", lambda: [*request(), ("x test", "ok")]),
    malformed("8.2.1 a name with a colon", lambda: [*request(), ("x:test", "ok")]),
    malformed("8.2.1 an empty name", lambda: [*request(), ("", "ok")]),
    malformed("8.2.1 a name beyond ASCII", lambda: [*request(), ("x-tést", "ok")]),
    malformed("8.2.1 a line feed in a value", lambda: [*request(), ("x-test", "a\nb")]),
    malformed("8.2.1 a carriage return in a value", lambda: [*request(), ("x-test", "a\rb")]),
    malformed("8.2.1 a NUL in a value", lambda: [*request(), ("x-test", "a\x00b")]),
    malformed("8.2.1 a value that begins with a space", lambda: [*request(), ("x-test", " a")]),
    malformed("8.2.1 a value that ends with a tab", lambda: [*request(), ("x-test", "a\t")]),
    *(
        malformed(f"8.2.2 {name}", lambda name=name, value=value: [*request(), (name, value)])  # type: ignore[misc]
        for name, value in (
            ("connection", "keep-alive"), ("keep-alive", "timeout=5"), ("upgrade", "h2c"),
            ("proxy-connection", "keep-alive"), ("transfer-encoding", "chunked"),
        )
    ),
    malformed("8.2.2 te other than trailers", lambda: fields(te="trailers, deflate")),
    # 8.3
    malformed("8.3 an unknown pseudo-header", lambda: [*request()[:4], (":test", "ok"), *request()[4:]]),
    malformed("8.3 a pseudo-header of responses", lambda: [*request()[:4], (":status", "200"), *request()[4:]]),
    malformed("8.3 a pseudo-header behind a field", lambda: [request()[-1], *request()[:-1]]),
    malformed("8.3.1 no :method", lambda: fields(without=":method")),
    malformed("8.3.1 no :scheme", lambda: fields(without=":scheme")),
    malformed("8.3.1 no :path", lambda: fields(without=":path")),
    malformed("8.3.1 an empty :path", lambda: fields(path="")),
    malformed("8.3.1 an empty :method", lambda: fields(method="")),
    malformed("8.3.1 an empty :scheme", lambda: fields(scheme="")),
    malformed("8.3.1 a :method that is no token", lambda: fields(method="PO ST")),
    malformed("8.3.1 a :path without a slash", lambda: fields(path="inference")),
    *(
        malformed(f"8.3.1 {name} twice", lambda name=name: [f for f in request() if f[0] == name] + request())  # type: ignore[misc]
        for name in (":method", ":scheme", ":path", ":authority")
    ),
    malformed("8.3.1 host that is not :authority", lambda: [*request(), ("host", "there")]),
    malformed("8.3.1 userinfo in :authority", lambda: fields(authority="somebody@here")),
    Case("8.3.1 host as :authority", lambda p: open_call(p, 1, ("host", "here")) + data(), Answered()),
    # 8.4
    Case("8.4 PUSH_PROMISE from a client", lambda p: frame(PUSH, END_HEADERS, 1, number(2)), PROTOCOL),
    # RFC 7541
    spelled_case("7541 6.2.2 literals without indexing", lambda: spelled(), Answered()),
    spelled_case("7541 6.2.1 literals with incremental indexing", lambda: spelled(prefix=0x40), Answered()),
    spelled_case("7541 6.2.3 literals never indexed", lambda: spelled(prefix=0x10), Answered()),
    spelled_case("7541 6.1 an indexed field of the dynamic table", lambda: spelled(literal(0x40, b"te", b"trailers") + b"\xbe"), Answered()),
    spelled_case("7541 6.2.1 an indexed name of the dynamic table", lambda: spelled(literal(0x40, b"te", b"trailers") + b"\x7e\x08trailers"), Answered()),
    spelled_case("7541 6.2.2 an indexed name of the static table", lambda: spelled(b"\x0f\x2b\x01a"), Answered()),
    spelled_case("7541 5.2 a value in Huffman code", lambda: spelled(b"\x00\x03x-a\x88" + bytes.fromhex("25a849e95ba97d7f")), Answered()),
    spelled_case("7541 6.3 a table size update", lambda: spelled(before=b"\x20"), Answered()),
    spelled_case("7541 4.2 two table size updates", lambda: spelled(before=b"\x20\x3f\xe1\x1f"), Answered()),
    spelled_case("7541 2.3.3 an index beyond the tables", lambda: spelled(b"\xc6"), COMPRESSION),
    spelled_case("7541 2.3.3 a name's index beyond the tables", lambda: spelled(b"\x7e\x01a"), COMPRESSION),
    spelled_case("7541 4.2 a table size update at the end", lambda: spelled(b"\x21"), COMPRESSION),
    spelled_case("7541 6.3 a table size over SETTINGS_HEADER_TABLE_SIZE", lambda: spelled(before=b"\x3f\xe2\x1f"), COMPRESSION),
    spelled_case("7541 6.1 index 0", lambda: spelled(b"\x80"), COMPRESSION),
    spelled_case("7541 5.1 an integer that does not end", lambda: spelled(b"\xff"), COMPRESSION),
    spelled_case("7541 5.1 an integer without bound", lambda: spelled(b"\xff" + b"\xff" * 9 + b"\x01"), COMPRESSION),
    spelled_case("7541 5.2 a string longer than its block", lambda: spelled(b"\x00\x7fx"), COMPRESSION),
    spelled_case("7541 5.2 Huffman padding of 8 bits", lambda: spelled(b"\x00\x03x-a\x82\x1f\xff"), COMPRESSION),
    spelled_case("7541 5.2 Huffman padding of zeros", lambda: spelled(b"\x00\x03x-a\x81\x18"), COMPRESSION),
    spelled_case("7541 5.2 the EOS symbol", lambda: spelled(b"\x00\x03x-a\x84\xff\xff\xff\xff"), COMPRESSION),
]  # fmt: skip


async def handle(call: InferenceRequest) -> InferenceReply:
    payload = call.payload
    if getattr(payload, "id", "") == "waits":
        await asyncio.Event().wait()
    return reply(infer_response("answered"))


async def answered(peer: Peer, stream: int) -> None:
    seen = await peer.until(HEADERS, RST, GOAWAY)
    assert (seen.kind, seen.stream) == (HEADERS, stream), seen
    peer.decoder.decode(seen.payload)
    content = b""
    while (seen := await peer.until(HEADERS, DATA, RST, GOAWAY)).kind == DATA:
        content += seen.payload
    assert seen.kind == HEADERS, seen
    assert content[5:] == ANSWER
    assert peer.decoded(seen.payload)["grpc-status"] == "0"


async def still_serves(peer: Peer) -> None:
    last = 2**31 - 1 - 2
    peer.send(whole_call(peer, last))
    await answered(peer, last)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_the_front_keeps_to_the_rfc(case: Case) -> None:
    async with running_front(handle) as run, caller(run.port) as peer:
        peer.send(case.frames(peer))
        if case.later is not None:
            await answered(peer, 1)
            peer.send(case.later(peer))
        verdict = case.verdict
        if isinstance(verdict, ConnectionEnds):
            assert Code(await peer.goodbye()) in verdict.codes
        elif isinstance(verdict, StreamEnds):
            seen = await peer.until(RST, GOAWAY, HEADERS)
            assert (seen.kind, seen.stream) == (RST, verdict.stream), seen
            assert Code(seen.code) in verdict.codes
            await still_serves(peer)
        elif isinstance(verdict, Answered):
            await answered(peer, verdict.stream)
        else:
            await still_serves(peer)


async def test_the_servers_preface_is_the_first_that_it_sends() -> None:
    async with running_front(handle) as run:
        reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
        first = await Peer(reader, writer).next()
        assert (first.kind, first.flags & ACK, first.stream) == (SETTINGS, 0, 0)
        writer.close()


@pytest.mark.parametrize(
    "preface",
    [
        b"INVALID CONNECTION PREFACE\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        PREFACE[:-2] + b"\r\r" + settings(),
        PREFACE + frame(PING, 0, 0, bytes(8)),
        PREFACE + frame(SETTINGS, ACK, 0),
        PREFACE + frame(HEADERS, END_HEADERS, 1),
    ],
)
async def test_another_preface_ends_the_connection(preface: bytes) -> None:
    """Section 3.4."""
    async with running_front(handle) as run:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", run.port))
        peer.send(preface)
        assert await peer.goodbye() == Code.PROTOCOL_ERROR
        peer.writer.close()


async def test_settings_and_pings_are_acknowledged_in_their_order() -> None:
    """Sections 6.5.3 and 6.7."""
    async with running_front(handle) as run, caller(run.port, settings()) as peer:
        while not (seen := await peer.next()).flags & ACK:
            pass
        assert (seen.kind, seen.payload) == (SETTINGS, b"")
        peer.send(frame(PING, ACK, 0, b"an answer"[:8]), frame(PING, 0, 0, b"question"))
        seen = await peer.next()
        assert (seen.kind, seen.flags & ACK, seen.payload) == (PING, ACK, b"question")


async def test_an_answer_keeps_to_a_window_that_changes() -> None:
    """Sections 6.9.1 and 6.9.2: a window of 1, then widened; one that becomes negative."""
    async with running_front(handle) as run, caller(run.port, settings(window=3)) as peer:
        peer.send(whole_call(peer))
        await peer.fields(1)
        assert len((await peer.until(DATA)).payload) == 3
        peer.send(settings(window=1))  # the stream's window is -2 now
        peer.send(frame(WINDOW, 0, 1, number(3)))
        assert len((await peer.until(DATA)).payload) == 1
        peer.send(setting((4, 9), (4, 3)))  # the last value counts
        assert len((await peer.until(DATA)).payload) == 2
        peer.send(setting((4, 65_535)))
        content = b""
        while (seen := await peer.until(DATA, HEADERS)).kind == DATA:
            content += seen.payload
        assert peer.decoded(seen.payload)["grpc-status"] == "0"


async def test_more_streams_than_allowed_are_refused() -> None:
    """Section 5.1.2."""
    async with running_front(handle) as run, caller(run.port) as peer:
        greeting = await peer.until(SETTINGS)
        limits = dict(struct.iter_unpack(">HI", greeting.payload))
        last = 2 * limits[3] + 1
        peer.send(*(waiting_call(peer, stream) for stream in range(1, last + 1, 2)))
        refused = await peer.until(RST, GOAWAY)
        assert (refused.kind, refused.stream) == (RST, last)
        assert refused.code in (Code.REFUSED_STREAM, Code.PROTOCOL_ERROR)
