"""A CUDA library with the kernels of one architecture: a quarter of its size once it is packed.

A library is built for several generations of cards and carries the kernels of each in the section
.nv_fatbin: containers of entries, one for each architecture (the layout of `fatbinary.h` of CUDA
13, magic 0xBA55ED50). Here the entries of the others go, in place, so that no address moves: zeros
stand where they were, which pack to nothing. `nvprune` does it for static libraries alone.

Containers that hold this architecture and no other go too: they are variants that the library
takes where they are there (44 MB of ONNX Runtime's, of attention and mixture of experts on Hopper),
beside the kernels that every architecture has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MAGIC = 0xBA55ED50
_SECTION = b".nv_fatbin"
_HEADER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of the entries
_ENTRY = struct.Struct("<HHIQ")  # kind, version, bytes of this header, bytes of the payload
_ARCHITECTURE_AT = 28  # in an entry's header: 90 for sm_90


class NoKernels(Exception):
    """The library has no kernels, or none that this reads; the message says which."""


@dataclass(frozen=True, slots=True)
class Thinned:
    """What stayed of a library's kernels, in bytes."""

    before: int
    after: int
    architectures: tuple[int, ...]  # that it was built for


def thin(source: Path, into: Path, architecture: int) -> Thinned:
    """Raises NoKernels."""
    held = bytearray(source.read_bytes())
    begin, end = _section(held, source)
    at, own_bytes, built_for = begin, 0, set[int]()
    while at < end:
        magic, _, header_bytes, entries_bytes = _HEADER.unpack_from(held, at)
        if magic != _MAGIC:
            raise NoKernels(f"{source}: no container of kernels at {at:#x}")
        first, after = at + header_bytes, at + header_bytes + entries_bytes
        entries = list(_entries(held, first, after))
        architectures = {each for each, _ in entries}
        own = b"".join(entry for each, entry in entries if each == architecture)
        body = own if len(architectures) > 1 else b""
        held[first:after] = body + bytes(entries_bytes - len(body))
        struct.pack_into("<Q", held, at + 8, len(body))
        built_for |= architectures
        own_bytes += len(body)
        at = after
    if not own_bytes:
        raise NoKernels(f"{source}: built for {sorted(built_for)}, and not for {architecture}")
    into.write_bytes(held)
    into.chmod(0o755)
    return Thinned(end - begin, own_bytes, tuple(sorted(built_for)))


def _entries(held: bytearray, at: int, end: int) -> Iterator[tuple[int, bytes]]:
    while at < end:
        _, _, header_bytes, payload_bytes = _ENTRY.unpack_from(held, at)
        (architecture,) = struct.unpack_from("<I", held, at + _ARCHITECTURE_AT)
        after = at + header_bytes + payload_bytes
        yield architecture, bytes(held[at:after])
        at = after


def _section(held: bytearray, source: Path) -> tuple[int, int]:
    """Where the kernels lie in the file, by its section headers (ELF, 64 bits)."""
    if held[:5] != b"\x7fELF\x02":
        raise NoKernels(f"{source}: no shared library of 64 bits")
    (table_at,) = struct.unpack_from("<Q", held, 40)
    entry_bytes, count, names_at = struct.unpack_from("<HHH", held, 58)
    headers = [
        struct.unpack_from("<IIQQQQ", held, table_at + entry_bytes * number)
        for number in range(count)
    ]
    names = headers[names_at][4]
    for name, _, _, _, offset, size in headers:
        begin = names + name
        if bytes(held[begin : held.find(b"\0", begin)]) == _SECTION:
            return offset, offset + size
    raise NoKernels(f"{source}: has no kernels")
