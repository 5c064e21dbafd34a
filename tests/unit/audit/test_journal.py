"""One chain on one disk: it goes on where it was, and does not go on over what was changed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import orjson
import pytest

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.journal.disk import DurableFile
from gateway.accounting.audit.journal.segments import segments
from gateway.accounting.audit.journal.spool import Spool
from loadtests.audit.tampering import hash_anew
from tests.unit.audit import rig
from tests.unit.audit.rig import DAY_S, SMALL, Wall, call, checked, journal, kinds, put, written


@contextmanager
def full_disk(at_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def last_segment(directory: Path) -> Path:
    return segments(directory)[-1].path


def test_each_line_is_bound_to_the_one_before(tmp_path: Path) -> None:
    """As the page says it: SHA-256 over the hash before and the line without its own."""
    rig.audit(tmp_path, calls=3)
    before = bytes(32)
    for line in last_segment(tmp_path).read_bytes().splitlines():
        body, _, tail = line.rpartition(b',"hash":"')
        before = hashlib.sha256(before + body + b"}").digest()
        assert tail == before.hex().encode() + b'"}'


def test_records_are_for_their_owner_alone(tmp_path: Path) -> None:
    rig.audit(tmp_path / "new" / "audit")
    for path in (tmp_path / "new" / "audit").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path.name
    assert (tmp_path / "new" / "audit").stat().st_mode & 0o777 == 0o700


def test_a_chain_goes_on_after_a_restart(tmp_path: Path) -> None:
    for _ in range(3):
        with written(tmp_path) as found:
            put(found, call(1))
    assert kinds(tmp_path) == ["segment", *3 * ["start", "call", "stop"]]
    assert [line["seq"] for line in rig.lines(tmp_path)] == list(range(10))
    assert checked(tmp_path).holds


def test_a_second_gateway_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    with written(tmp_path), pytest.raises(AuditError, match=r"needs its own audit\.directory"):
        journal(tmp_path)


def test_a_chain_of_another_gateway_is_not_gone_on_with(tmp_path: Path) -> None:
    rig.audit(tmp_path)
    with pytest.raises(AuditError, match=r"audit\.directory of its own"):
        journal(tmp_path, origin="another")


def test_a_segment_ends_when_it_is_full_and_at_the_end_of_the_day(tmp_path: Path) -> None:
    wall = Wall()
    with written(tmp_path, wall) as found:
        put(found, call(1))
        wall.now_s += DAY_S
        put(found, call(2), call(3))
    assert kinds(tmp_path) == ["segment", "start", "call", "call", "segment", "call", "stop"]
    rig.audit(tmp_path / "small", calls=20)
    sizes = [segment.path.stat().st_size for segment in segments(tmp_path / "small")]
    assert len(sizes) > 2
    assert max(sizes) < SMALL + 1000


def test_every_segment_has_a_signed_checkpoint_of_what_came_before(tmp_path: Path) -> None:
    rig.audit(tmp_path, calls=30)
    found = checked(tmp_path)
    assert found.holds
    for segment in segments(tmp_path):
        assert segment.checkpoints.read_text().splitlines()[1] == str(segment.first)


# A gateway that was killed


def kill(directory: Path, part: bytes) -> None:
    """What a gateway leaves that was killed while it wrote."""
    found = journal(directory)
    put(found, call(1), call(2))
    with last_segment(directory).open("ab") as file:
        file.write(part)
    found._lock.release()


def test_the_part_of_a_line_that_a_kill_left_is_put_aside_and_recorded(tmp_path: Path) -> None:
    kill(tmp_path, b'{"seq":4,"kind":"ca')
    assert [f.line for f in checked(tmp_path).findings] == [5], "not until the gateway has told it"
    with written(tmp_path) as found:
        put(found, call(3))
    assert kinds(tmp_path)[2:] == ["call", "call", "torn", "start", "call", "stop"]
    assert (tmp_path / "000000000004.torn").read_bytes() == b'{"seq":4,"kind":"ca'
    assert checked(tmp_path).holds


@pytest.mark.parametrize("lost", ["changed", "gone"])
def test_what_was_put_aside_is_verified_too(tmp_path: Path, lost: str) -> None:
    kill(tmp_path, b'{"seq":4,"kind":"ca')
    with written(tmp_path):
        pass
    part = tmp_path / "000000000004.torn"
    part.write_bytes(b"{}") if lost == "changed" else part.unlink()
    (finding,) = checked(tmp_path).findings
    assert "000000000004.torn" in finding.what


def test_a_part_that_was_put_aside_before_a_second_kill_is_recorded_still(tmp_path: Path) -> None:
    kill(tmp_path, b"")
    (tmp_path / "000000000004.torn").write_bytes(b"part")
    with written(tmp_path):
        pass
    assert kinds(tmp_path)[4:] == ["torn", "start", "stop"]
    assert checked(tmp_path).holds


def test_a_segment_that_was_not_whole_when_the_kill_came_is_made_again(tmp_path: Path) -> None:
    kill(tmp_path, b"")
    (tmp_path / "000000000004.jsonl.part").write_bytes(b"{")
    (tmp_path / "000000000004.checkpoints").write_bytes(b"")
    with written(tmp_path, segment_max_bytes=1500) as found:
        put(found, call(3))
    assert len(segments(tmp_path)) > 1
    assert checked(tmp_path).holds


# What was changed while no gateway ran


def test_a_chain_that_was_changed_is_not_gone_on_with(tmp_path: Path) -> None:
    rig.audit(tmp_path)
    path = last_segment(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"clinic", b"clinik"))
    with pytest.raises(AuditError, match=r"line 2: .* Keep the directory as evidence"):
        journal(tmp_path)


def test_a_chain_that_lost_signed_records_is_not_gone_on_with(tmp_path: Path) -> None:
    rig.audit(tmp_path)
    path = last_segment(tmp_path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    with pytest.raises(AuditError, match="2 records that were there"):
        journal(tmp_path)


def test_a_chain_that_was_hashed_anew_is_not_gone_on_with(tmp_path: Path) -> None:
    rig.audit(tmp_path)
    hash_anew(tmp_path, Random(1))
    with pytest.raises(AuditError, match=r"are not those that \d+\.checkpoints was signed over"):
        journal(tmp_path)


def test_a_checkpoint_of_another_key_is_not_gone_on_with(tmp_path: Path) -> None:
    rig.audit(tmp_path)
    (tmp_path / "signing.key").unlink()
    with pytest.raises(AuditError, match="not signed by"):
        journal(tmp_path)


# The disk


def test_an_append_is_durable_when_it_returns(tmp_path: Path) -> None:
    """As the kernel says it of the files that a journal has open."""
    found = journal(tmp_path)
    put(found, call(1))
    flags = {}
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if (to := each.readlink()).parent == tmp_path and to.suffix in (
                ".jsonl",
                ".checkpoints",
            ):
                told = Path(f"/proc/self/fdinfo/{each.name}").read_text()
                flags[to.suffix] = int(told.split("flags:")[1].split()[0], 8)
    found.close()
    assert len(flags) == 2
    assert all(each & os.O_DSYNC for each in flags.values())


def test_a_record_that_does_not_fit_leaves_no_trace(tmp_path: Path) -> None:
    found = journal(tmp_path)
    put(found, call(1))
    size = last_segment(tmp_path).stat().st_size
    with full_disk(size + 100), pytest.raises(OSError, match="File too large"):
        put(found, call(2))
    assert last_segment(tmp_path).stat().st_size == size
    put(found, call(3))
    found.close()
    assert [line["id"] for line in rig.lines(tmp_path) if line["kind"] == "call"] == [
        "call-1",
        "call-3",
    ]
    assert checked(tmp_path).holds


def test_what_a_failed_write_left_is_cut_off_before_the_next(tmp_path: Path) -> None:
    """Also where it could not be cut off at once."""
    path = tmp_path / "file"
    file = DurableFile(path)
    file.append(b"good\n")
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.mkdir()  # so that it cannot be opened again
    with full_disk(8), pytest.raises(OSError, match="File too large"):
        file.append(b"too long")
    path.rmdir()
    (tmp_path / "elsewhere").rename(path)
    assert path.read_bytes() != b"good\n"
    file.append(b"next\n")
    assert path.read_bytes() == b"good\nnext\n"
    file.close()


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AuditError, match="cannot be written: Not a directory"):
        journal(tmp_path / "file" / "audit")


# The spool


@pytest.mark.parametrize("on_disk", [True, False])
def test_what_the_disk_does_not_take_is_spooled_and_comes_back(
    tmp_path: Path, on_disk: bool
) -> None:
    spool = Spool(10_000, tmp_path / "spool" if on_disk else None)
    found = journal(tmp_path / "audit", spool=spool)
    put(found, call(1))
    size = last_segment(tmp_path / "audit").stat().st_size
    with full_disk(size + 100):  # which the spool's own file does not reach
        put(found, call(2))
        assert found.spooled == 1
        assert (tmp_path / "spool").exists() == on_disk
    put(found, call(3))
    assert found.spooled == 0
    found.close()
    assert checked(tmp_path / "audit").holds
    ids = [line["id"] for line in rig.lines(tmp_path / "audit") if line["kind"] == "call"]
    assert ids == ["call-1", "call-2", "call-3"]


def test_what_a_killed_gateway_had_spooled_is_in_the_chain_at_the_next_start(
    tmp_path: Path,
) -> None:
    directory, spooled = tmp_path / "audit", tmp_path / "spool"
    found = journal(directory, spool=Spool(10_000, spooled))
    put(found, call(1))
    head = found._head.copy()
    first, second = head.add([orjson.dumps(call(2))]), head.add([orjson.dumps(call(3))])
    spooled.mkdir()
    (spooled / f"{found.chain}.spool").write_bytes(first + second + b'{"seq":5,')
    with last_segment(directory).open("ab") as file:
        file.write(first[:30])
    found._lock.release()
    with written(directory, spool=Spool(10_000, spooled)):
        pass
    assert kinds(directory)[2:] == ["call", "call", "call", "start", "stop"]
    assert list(spooled.iterdir()) == []
    assert checked(directory).holds


def test_a_spool_that_is_full_takes_no_more(tmp_path: Path) -> None:
    spool = Spool(1000)
    spool.put("chain", b"x" * 900 + b"\n")
    with pytest.raises(OSError, match="nor in the spool"):
        spool.put("chain", b"x" * 200 + b"\n")
    assert spool.records == 1


# Retention


def aged(directory: Path, days: int, **changes: object) -> None:
    """A segment for each day."""
    wall = Wall()
    found = journal(directory, wall, **changes)
    for _ in range(days):
        put(found, call(1), call(2))
        wall.now_s += DAY_S
    put(found, call(3), call(4))
    found.close()


def test_records_beyond_their_time_are_removed_in_whole_segments(tmp_path: Path) -> None:
    aged(tmp_path, 6, retain_days=3.0)
    first = rig.lines(tmp_path)[0]
    assert first["kind"] == "segment"
    assert first["seq"] > 0
    found = checked(tmp_path)
    assert found.findings == []
    assert found.first == first["seq"]
    assert "pruned" in kinds(tmp_path)
    with written(tmp_path, retain_days=3.0):
        pass
    assert checked(tmp_path).holds, "and it goes on"


def test_without_a_time_to_keep_them_nothing_is_removed(tmp_path: Path) -> None:
    aged(tmp_path, 6)
    assert rig.lines(tmp_path)[0]["seq"] == 0


def test_segments_that_somebody_else_removed_are_missed(tmp_path: Path) -> None:
    aged(tmp_path, 6, retain_days=4.0)
    first = segments(tmp_path)[0]
    first.path.unlink()
    first.checkpoints.unlink()
    (finding,) = checked(tmp_path).findings
    assert "are missing, and no record tells that they were removed in time" in finding.what
