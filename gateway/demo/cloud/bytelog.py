"""Everything that reached the cloud, appended to a file before the call is answered.

One JSON object a line: `door` (http or grpc), `connection` (a number), `kind`, `data` (base64).
Kind `bytes` is what the socket gave, in order: the lines of one connection make its stream again.
`message` is a serialised gRPC request after its decompression, `metadata` its headers, which on
the wire are Huffman-coded. Each line is one write(2) to a file opened for appending: it is there
for every reader even if this process is killed right after.
"""

import base64
import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    door: str
    connection: int
    kind: str
    data: bytes


class ByteLog:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._connections = 0
        self.records = 0
        self.payload_bytes = 0

    def next_connection(self) -> int:
        self._connections += 1
        return self._connections

    @property
    def connections(self) -> int:
        return self._connections

    def append(self, record: Record) -> None:
        line = json.dumps(
            {
                "door": record.door,
                "connection": record.connection,
                "kind": record.kind,
                "data": base64.b64encode(record.data).decode(),
            }
        )
        unwritten = memoryview(line.encode() + b"\n")
        while unwritten:
            unwritten = unwritten[os.write(self._file, unwritten) :]
        self.records += 1
        self.payload_bytes += len(record.data)

    def clear(self) -> None:
        os.ftruncate(self._file, 0)
        self.records = 0
        self.payload_bytes = 0

    def close(self) -> None:
        os.close(self._file)


def read(path: Path) -> Iterator[Record]:
    with path.open("rb") as lines:
        for line in lines:
            raw = json.loads(line)
            data = base64.b64decode(raw["data"])
            yield Record(raw["door"], raw["connection"], raw["kind"], data)
