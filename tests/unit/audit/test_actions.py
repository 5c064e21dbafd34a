"""B7: what operators did is on record, with who, what and when, and no action is acknowledged
without."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.__main__ import main
from gateway.accounting.audit.actions import Action, Actions, ActionWatch, actions
from gateway.accounting.audit.reports.calls import calls
from gateway.accounting.records import Durable, RecordUnwritable
from gateway.accounting.spill import SpillStop
from gateway.auth.key_store import KeyReader, KeyStore
from tests.unit.audit import rig
from tests.unit.audit.rig import DAY_S, JULY_S, call, put, written
from tests.unit.callers.rig import Vault
from tests.unit.harness import MemoryLog

pytestmark = pytest.mark.leaping


class Disk(MemoryLog):
    """Durable when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.durable: Durable | None = None

    def append(self, record: Mapping[str, Any]) -> Durable | None:
        super().append(record)
        self.durable = asyncio.get_running_loop().create_future()
        return self.durable


class Watched:
    """A switch, a key store, and what is noticed of them."""

    def __init__(self, folder: Path, since_s: float = 0.0) -> None:
        self.vault = Vault(folder)
        self.file = folder / "stop"
        self.log = MemoryLog()
        self.actions = Actions(self.log)
        self.clock_s = 0.0
        self.start(since_s)

    def start(self, since_s: float) -> None:
        self.reader = KeyReader(self.vault.path)
        stop = SpillStop(self.file, lambda: self.clock_s)
        self.noticed = ActionWatch(self.actions, lambda: stop, self.reader, since_s)

    async def look(self) -> list[tuple[str, str]]:
        """What is told, by what was done and to what."""
        before = len(self.log.lines)
        self.clock_s += 1.0
        await self.noticed.poll()
        return [(line["action"], line["on"]) for line in self.log.lines[before:]]


def watching(folder: Path, test: Callable[[Watched], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await test(Watched(folder))

    asyncio.run(main())


async def test_a_record_says_who_did_what_and_is_awaited() -> None:
    disk = Disk()
    doing = asyncio.create_task(Actions(disk).record("drain", "oncall", "gpu"))
    await asyncio.sleep(0.1)
    assert not doing.done()
    assert disk.durable is not None
    disk.durable.set_result(None)
    await doing
    (line,) = disk.lines
    assert {k: line[k] for k in ("kind", "action", "by", "on", "via")} == {
        "kind": "action", "action": "drain", "by": "oncall", "on": "gpu", "via": "console",
    }  # fmt: skip


@pytest.mark.parametrize("answers", [True, False])
async def test_a_record_that_is_not_durable_is_none(answers: bool) -> None:
    disk = Disk()
    doing = asyncio.create_task(Actions(disk).record("drain", "oncall", "gpu"))
    await asyncio.sleep(0.1)
    assert disk.durable is not None
    if answers:
        disk.durable.set_result(RecordUnwritable("no space is left"))
    with pytest.raises(RecordUnwritable, match="no space" if answers else "does not answer"):
        await doing


def test_the_file_of_the_switch_is_noticed_once_whoever_made_it(tmp_path: Path) -> None:
    async def test(watched: Watched) -> None:
        assert await watched.look() == []
        watched.file.touch()
        assert await watched.look() == [("spill_stop", str(watched.file))]
        assert await watched.look() == []
        watched.file.unlink()
        assert await watched.look() == [("spill_go", str(watched.file))]
        assert {(line["by"], line["via"]) for line in watched.log.lines} == {("", "file")}

    watching(tmp_path, test)


def test_what_could_not_be_recorded_is_told_as_soon_as_it_can_be(tmp_path: Path) -> None:
    async def test(watched: Watched) -> None:
        watched.file.touch()
        watched.vault.create("acme")
        watched.log.full = True
        for _ in range(2):
            with pytest.raises(RecordUnwritable):
                await watched.look()
        watched.log.full = False
        told = await watched.look()
        assert [action for action, _ in told] == ["spill_stop", "key_create"]

    watching(tmp_path, test)


def test_keys_that_are_issued_rotated_and_revoked_are_told_with_who_did_it(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.db", by="alma")

    async def test(watched: Watched) -> None:
        watched.vault.store = store
        key = watched.vault.create("acme")[7:19]
        assert await watched.look() == [("key_create", key)]
        (line,) = watched.log.lines
        assert (line["by"], line["via"], line["tenant"]) == ("alma", "keys", "acme")
        assert line["at"] == watched.vault.times.wall_s
        store.revoke(key, watched.vault.times.wall_s)
        assert await watched.look() == [("key_revoke", key)]
        assert await watched.look() == []

    watching(tmp_path, test)


def test_a_rotation_is_the_end_of_one_key_and_the_beginning_of_another(tmp_path: Path) -> None:
    config = tmp_path / "spillway.yaml"
    config.write_text(
        f"endpoints: {{gpu: {{kind: triton, zone: onprem, grpc: 'localhost:1'}}}}\n"
        f"models: {{m: {{served_by: [{{endpoint: gpu}}]}}}}\nkey_store: {tmp_path}/keys.db\n"
    )

    async def test(watched: Watched) -> None:
        old = watched.vault.create("acme")[7:19]
        assert main(["keys", "rotate", old, "--config", str(config)]) == 0
        told = await watched.look()
        assert [action for action, _ in told] == ["key_create", "key_rotate", "key_create"]
        assert told[1][1] == old != told[2][1]
        assert watched.log.lines[-1]["by"], "the user who ran the command"

    watching(tmp_path, test)


def test_what_was_done_while_no_gateway_ran_is_told_at_the_next_start(tmp_path: Path) -> None:
    async def test(watched: Watched) -> None:
        times = watched.vault.times
        watched.vault.create("old")
        times.pass_s(DAY_S)
        last_record_s = times.wall_s
        missed = watched.vault.create("acme")[7:19]
        watched.start(last_record_s)
        assert await watched.look() == [("key_create", missed)]

    watching(tmp_path, test)


def test_a_store_that_an_older_version_made_has_no_changes_to_tell(tmp_path: Path) -> None:
    async def test(watched: Watched) -> None:
        with sqlite3.connect(watched.vault.path) as file:
            file.execute("DROP TABLE changes")
        assert await watched.look() == []
        watched.vault.path.unlink()
        assert await watched.look() == []

    watching(tmp_path, test)


# Reading


def action(number: float, **changes: Any) -> dict[str, Any]:
    found = {
        "kind": "action", "time": JULY_S + number, "action": "drain", "by": "oncall",
        "on": "gpu-1", "via": "console",
    }  # fmt: skip
    return {**found, **changes}


KEY = {"action": "key_create", "on": "hk3v5zqx2b7a", "via": "keys", "by": "alma"}


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    with written(tmp_path) as into:
        put(
            into,
            call(0),
            action(1),
            action(2, action="undrain", by="wall"),
            action(DAY_S, **KEY, at=JULY_S + 3, tenant="clinic"),
            action(DAY_S + 60, **KEY, at=JULY_S + 3, tenant="clinic"),
        )
    return tmp_path


def asked(directory: Path, capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    command = ["audit", "query", "--directory", str(directory), "--actions", "--json", *more]
    assert main(command) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_actions_are_found_by_who_and_when(audit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = asked(audit, capsys)
    assert [a["action"] for a in told] == ["drain", "undrain", "key_create"], "told anew, read once"
    assert told[2]["time_s"] == JULY_S + 3, "when it was done, not when it was noticed"
    assert [a["by"] for a in asked(audit, capsys, "--by", "alma")] == ["alma"]
    assert asked(audit, capsys, "--from", "2026-07-02") == []
    assert main(["audit", "query", "--directory", str(audit), "--actions"]) == 0
    assert "undrain     gpu-1  by wall (console)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--actions", "--zone", "cloud"], "--zone is of calls"),
        (["--actions", "--class", "clear"], "--class is of calls"),
        (["--by", "alma"], "say --actions too"),
    ],
)
def test_what_is_of_calls_alone_is_refused(
    audit: Path, wrong: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "query", "--directory", str(audit), *wrong]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_actions_are_no_calls_and_are_chained_as_all_records(audit: Path) -> None:
    assert len(list(calls(rig.lines(audit)))) == 1
    assert rig.checked(audit).holds
    path = next(audit.glob("*.jsonl"))
    path.write_bytes(path.read_bytes().replace(b'"by":"wall"', b'"by":"nobo"', 1))
    (finding,) = rig.checked(audit).findings[:1]
    assert "the hash of record 4" in finding.what


def test_they_are_on_the_page_of_the_quarter(audit: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    command = ["audit", "report", "--directory", str(audit), "--quarter", "2026Q3"]
    assert main([*command, "--out", str(out)]) == 0
    told = out.read_text()
    assert "What operators did" in told
    assert told.count("hk3v5zqx2b7a") == 1
    for part in ("undrain", "gpu-1", "oncall", "wall", "alma", "clinic"):
        assert part in told
    assert main([*command[:-1], "2026Q2", "--out", str(out)]) == 0
    assert "oncall" not in out.read_text()


def test_what_is_no_record_of_an_action_says_so() -> None:
    with pytest.raises(Exception, match="record 7 is no record of an action"):
        list(actions([{"seq": 7, "kind": "action", "time": 1.0}]))
    assert list(actions([{"seq": 1, **action(0)}])) == [
        Action(1, JULY_S, "drain", "oncall", "gpu-1", "console")
    ]
