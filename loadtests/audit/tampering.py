"""How much of what can be done to an audit is noticed.

Each try copies an audit of several segments, does one thing to its records, and verifies it with
the checkpoint that was exported before. What is done: a byte is edited, lines are deleted, lines or
files change places, the end is cut off; or a record is edited and everything after it hashed anew,
as somebody would who knows the form and lacks the key.

    python -m loadtests.audit.tampering --tries 10000 --seed 1
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import orjson

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.chain import ChainHead
from gateway.accounting.audit.journal.journal import Journal, JournalOptions
from gateway.accounting.audit.journal.segments import Header, segments
from gateway.accounting.audit.verify import public_key, verify

Tamper = Callable[[Path, Random], None]
_SEGMENT_BYTES = 8192


def build(directory: Path, calls: int) -> str:
    """An audit; gives the checkpoint of all of it."""
    journal = Journal(JournalOptions(directory, "tampering", segment_max_bytes=_SEGMENT_BYTES))
    journal.open()
    journal.started({})
    for number in range(calls):
        record = {"kind": "call", "id": f"call-{number}", "tenant": "a", "attempts": [],
                  "sensitivity": "restricted", "filled": "x" * (number % 90)}  # fmt: skip
        journal.commit([orjson.dumps(record)])
        journal.tend()
    journal.close()
    return segments(directory)[-1].checkpoints.read_text()


def _any(directory: Path, rng: Random) -> Path:
    return rng.choice([segment.path for segment in segments(directory)])


def edit(directory: Path, rng: Random) -> None:
    files = [p for s in segments(directory) for p in (s.path, s.checkpoints)]
    path = rng.choice(files)
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    data[at] ^= rng.randrange(1, 256)
    path.write_bytes(data)


def delete(directory: Path, rng: Random) -> None:
    path = _any(directory, rng)
    lines = path.read_bytes().splitlines(keepends=True)
    at = rng.randrange(len(lines))
    del lines[at : at + rng.choice((1, 1, 1, 2, 5, len(lines)))]
    path.write_bytes(b"".join(lines))


def reorder(directory: Path, rng: Random) -> None:
    found = [segment.path for segment in segments(directory)]
    if rng.random() < 0.1:
        one, other = rng.sample(found, 2)
        first, second = one.read_bytes(), other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)
        return
    path = rng.choice([p for p in found if p.read_bytes().count(b"\n") > 1])
    lines = path.read_bytes().splitlines(keepends=True)
    one_at, other_at = rng.sample(range(len(lines)), 2)
    lines[one_at], lines[other_at] = lines[other_at], lines[one_at]
    path.write_bytes(b"".join(lines))


def truncate(directory: Path, rng: Random) -> None:
    """The end of the whole, at a line or within one, or of a segment before the last."""
    found = segments(directory)
    at = len(found) - 1 if rng.random() < 0.7 else rng.randrange(len(found))
    last = found[at]
    if rng.random() < 0.7:
        for gone in found[at + 1 :]:
            gone.path.unlink()
            gone.checkpoints.unlink()
    lines = last.path.read_bytes().splitlines(keepends=True)
    if rng.random() < 0.5:
        kept = b"".join(lines[: rng.randrange(len(lines))])
    else:
        whole = b"".join(lines)
        kept = whole[: rng.randrange(len(whole))]
    last.path.write_bytes(kept)
    if rng.random() < 0.5:  # and the checkpoints that would tell
        first = last.checkpoints.read_text().split("\n\n")[:2]
        last.checkpoints.write_text("\n\n".join(first).rstrip("\n") + "\n")


def hash_anew(directory: Path, rng: Random) -> None:
    """One record is another, and every hash after it, headers included, is right again."""
    found = segments(directory)
    victim = rng.randrange(1, sum(s.path.read_bytes().count(b"\n") for s in found))
    head = ChainHead.empty()
    for segment in found:
        written = []
        for line in segment.path.read_bytes().splitlines():
            record = json.loads(line)
            del record["hash"], record["seq"]
            if record["kind"] == "segment":
                before = Header.parse(line)
                header = Header(before.chain, before.origin, before.time_s, head.copy())
                record = header.record(record["key"])
            if head.size == victim:
                record["tenant"] = "somebody else"
            written.append(head.add([orjson.dumps(record)]))
        segment.path.write_bytes(b"".join(written))


KINDS: dict[str, Tamper] = {
    "edit": edit,
    "delete": delete,
    "reorder": reorder,
    "truncate": truncate,
    "hash anew": hash_anew,
}


def tries(scratch: Path, count: int, seed: int, calls: int = 60) -> Iterator[tuple[str, int, bool]]:
    """What was done, by which number, and whether it was noticed."""
    original = scratch / "original"
    exported = build(original, calls)
    key = public_key(original)
    files = {p.name: p.read_bytes() for p in original.iterdir()}
    assert verify(original, key, [("exported", exported)]).holds
    for number in range(count):
        rng = Random(seed * 1_000_003 + number)
        kind = list(KINDS)[number % len(KINDS)]
        copy = scratch / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for name, data in files.items():
            (copy / name).write_bytes(data)
        KINDS[kind](copy, rng)
        changed = {p.name: p.read_bytes() for p in copy.iterdir()} != files
        if not changed:  # two equal lines changed places
            continue
        try:
            noticed = not verify(copy, key, [("exported", exported)]).holds
        except AuditError:
            noticed = True
        yield kind, number, noticed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtests.audit.tampering")
    parser.add_argument("--tries", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    done: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for kind, number, noticed in tries(Path(scratch), given.tries, given.seed):
            done[kind] += 1
            if not noticed:
                missed[kind] += 1
                print(f"missed: {kind}, try {number} of seed {given.seed}", flush=True)
    for kind, count in done.items():
        print(f"{kind:<10} {count:>6} done, {count - missed[kind]:>6} noticed")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
