"""Which calls reached the cloud, by the bytes that it received and by nothing else."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

from gateway.demo.cloud import bytelog

_REFERENCE = re.compile(rb"[a-z]+(?:-[a-z]+){3}")


def references_in(log: Path, references: Collection[str]) -> set[str]:
    """Those of the references that stand anywhere in what the cloud received.

    Each connection is read as one stream, so that a reference over two reads is seen.
    """
    streams: dict[tuple[str, int, str], list[bytes]] = defaultdict(list)
    for record in bytelog.read(log):
        streams[record.door, record.connection, record.kind].append(record.data)
    wanted = {reference.encode() for reference in references}
    present: set[bytes] = set()
    for pieces in streams.values():
        present.update(wanted.intersection(_REFERENCE.findall(b"".join(pieces))))
    return {reference.decode() for reference in present}
