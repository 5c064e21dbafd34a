"""HTTP/2 as gRPC uses it: RFC 9113 and RFC 7541, for many small calls on few connections.

`hpack` reads and writes header blocks, `frames` says what frames are made of. On a `connection`,
`frame_reader` cuts them out of bytes, `frame_handler` does what they say, within `bounds`, and
`sender` keeps to the peer's windows. `client` has `calls` on it, `server` serves them
(`server_calls`, `exchange`); `message` is what gRPC puts into DATA. Why our own:
docs/decisions/014-http2-for-grpc.md.
"""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """RFC 9113, section 7."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    ENHANCE_YOUR_CALM = 0xB


class Http2Error(Exception):
    """The peer does not keep to the protocol: the connection ends with a GOAWAY of this code."""

    def __init__(self, code: Code, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


class BadStream(Exception):
    """One stream of the peer's is wrong, and is reset; the connection goes on."""

    def __init__(self, code: Code, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why
