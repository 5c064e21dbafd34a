"""The tables of RFC 7541: static fields (appendix A) and the Huffman code (appendix B).

The code is canonical, so that the lengths of its codes say all: codes of one length follow each
other in the order of their symbols. It is read half an octet at a time by a table of the states
that one can be in between, which is made when the first string comes that needs it.
"""

from __future__ import annotations

from functools import cache

from gateway.protocols.http2 import Code, Http2Error

STATIC: tuple[tuple[bytes, bytes], ...] = (
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
)

# fmt: off
_LENGTHS = (
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
)
# fmt: on
_END = 256  # the symbol that must not stand in a string; its first bits fill the last octet
_LONGEST_FILL = 7
_Step = tuple[int, bytes]  # where half an octet leads, and the symbol that ends in it
_REFUSED: _Step = (-1, b"")


def huffman_decoded(coded: bytes) -> bytes:
    """Raises Broken for what is not of the code (section 5.2)."""
    steps, ends = _machine()
    state = 0
    decoded = bytearray()
    for octet in coded:
        state, symbol = steps[state][octet >> 4]
        decoded += symbol
        state, symbol = steps[state][octet & 15]
        decoded += symbol
        if state < 0:
            break
    if state not in ends:
        raise Http2Error(Code.COMPRESSION_ERROR, "a string that is not of the Huffman code")
    return bytes(decoded)


@cache
def _machine() -> tuple[list[list[_Step]], frozenset[int]]:
    """Steps by state and half octet, and the states in which a string may end. A state is what has
    come of a code that is not complete; that which refuses is the last one, -1."""
    codes = _codes()
    prefixes = [""]
    for code in codes:
        prefixes += [code[:at] for at in range(1, len(code))]
    numbers = {prefix: at for at, prefix in enumerate(dict.fromkeys(prefixes))}
    steps = [[_step(prefix, half, codes, numbers) for half in range(16)] for prefix in numbers]
    ends = {
        at for prefix, at in numbers.items() if len(prefix) <= _LONGEST_FILL and "0" not in prefix
    }
    return [*steps, [_REFUSED] * 16], frozenset(ends)


def _step(prefix: str, half: int, codes: dict[str, int], numbers: dict[str, int]) -> _Step:
    symbols = b""
    for bit in f"{half:04b}":
        prefix += bit
        symbol = codes.get(prefix)
        if symbol == _END:
            return _REFUSED
        if symbol is not None:
            symbols += bytes((symbol,))
            prefix = ""
    return numbers[prefix], symbols


def _codes() -> dict[str, int]:
    codes: dict[str, int] = {}
    code, length = 0, 0
    for size, symbol in sorted((size, symbol) for symbol, size in enumerate(_LENGTHS)):
        code <<= size - length
        length = size
        codes[f"{code:0{size}b}"] = symbol
        code += 1
    return codes
