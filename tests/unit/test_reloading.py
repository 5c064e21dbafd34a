"""When the file is read again, what may change while the gateway runs, and what is said of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway.accounting.metrics import Metrics
from gateway.app.reload import Reloading, SettingsFile
from gateway.classify import ScannerUnfit
from gateway.config import Settings, load, parse
from gateway.config.changes import changed, needs_restart

TEXT = """
endpoints:
  gpu: {kind: triton, zone: onprem, grpc: "127.0.0.1:1"}
  own: {kind: triton, zone: onprem, embedded: true, repository: models}
  away: {kind: kserve, zone: cloud, url: "http://127.0.0.1:2"}
models:
  m: {served_by: [{endpoint: gpu}, {endpoint: own}, {endpoint: away}]}
keys:
  alpha: {key: "${SPILLWAY_TEST_KEY}", tenant: a}
tenants:
  a: {spill_budget_usd_per_day: 3}
routing: {spill_budget_usd_per_day: 5}
"""
EVERY_S = 0.02
RESULTS = ("applied", "refused", "unchanged", "needs_restart")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPILLWAY_TEST_KEY", "the-secret-of-alpha")


class House:
    """A gateway of which nothing is there but its settings."""

    def __init__(self, path: Path, text: str = TEXT, unfit: bool = False) -> None:
        path.write_text(text)
        self.path, self.unfit = path, unfit
        self.metrics = Metrics()
        file = SettingsFile(path, load)
        self.settings = file.read()
        self.reloading = Reloading(
            file, lambda: self.settings, self._apply, self.metrics, every_s=EVERY_S
        )

    async def _apply(self, settings: Settings) -> None:
        if self.unfit:
            raise ScannerUnfit("the scanner fails its samples: PERSON")
        self.settings = settings

    def counted(self) -> dict[str, int]:
        of = self.metrics.registry.get_sample_value
        found = {r: int(of("spillway_config_reloads_total", {"result": r}) or 0) for r in RESULTS}
        return {result: times for result, times in found.items() if times}


def _while_it_runs(house: House, steps: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        running = asyncio.create_task(house.reloading.run())
        try:
            await steps()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


async def _until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not reached():  # noqa: ASYNC110 - what it waits for tells nobody
            await asyncio.sleep(EVERY_S / 4)


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    house = House(tmp_path / "s.yaml")

    async def steps() -> None:
        house.path.write_text(TEXT.replace("per_day: 5", "per_day: 6"))
        await _until(lambda: house.counted() == {"applied": 1})
        assert house.settings.routing.spill_budget_usd_per_day == 6

    _while_it_runs(house, steps)


@pytest.mark.parametrize("text", ["endpoints: [", "", TEXT + "\nmodel: 3\n", None])
def test_a_file_that_is_wrong_changes_nothing_and_is_told(
    tmp_path: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(tmp_path / "s.yaml")
    before = house.settings

    async def steps() -> None:
        if text is None:
            house.path.unlink()
        else:
            house.path.write_text(text)
        await _until(lambda: house.counted() == {"refused": 1})
        assert house.settings is before
        assert house.reloading.last is not None
        assert house.reloading.last.document()["problems"] >= 1
        house.path.write_text(TEXT.replace("per_day: 5", "per_day: 6"))
        await _until(lambda: house.counted() == {"refused": 1, "applied": 1})

    _while_it_runs(house, steps)
    assert "those of before stay" in caplog.text


def test_a_file_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    """Half of one may be a file of settings, too: without the keys, say."""
    house = House(tmp_path / "s.yaml")

    async def steps() -> None:
        reads = [house.settings]
        for size in range(20, len(TEXT), 12):
            house.path.write_text(TEXT[:size])
            await asyncio.sleep(EVERY_S / 2)
            reads.append(house.settings)
        assert house.counted().get("refused", 0) <= 2  # one that is scheduled late may stand still
        house.path.write_text(TEXT)
        await asyncio.sleep(4 * EVERY_S)
        assert all(read is reads[0] for read in reads)

    _while_it_runs(house, steps)


def test_settings_whose_scanners_are_unfit_are_not_taken(tmp_path: Path) -> None:
    house = House(tmp_path / "s.yaml", unfit=True)
    before = house.settings

    async def steps() -> None:
        house.path.write_text(TEXT.replace("per_day: 5", "per_day: 6"))
        await _until(lambda: house.counted() == {"refused": 1})
        assert house.settings is before

    _while_it_runs(house, steps)


def test_who_asks_is_answered_though_nothing_changed(tmp_path: Path) -> None:
    house = House(tmp_path / "s.yaml")

    async def steps() -> None:
        house.reloading.ask()
        await _until(lambda: house.counted() == {"unchanged": 1})
        house.path.touch()
        await asyncio.sleep(5 * EVERY_S)
        assert house.counted() == {"unchanged": 1}

    _while_it_runs(house, steps)


def test_without_watching_only_who_asks_is_answered(tmp_path: Path) -> None:
    house = House(tmp_path / "s.yaml")

    async def steps() -> None:
        house.path.write_text(TEXT + "reload: {watch: false}\n")
        await _until(lambda: house.counted() == {"applied": 1})
        house.path.write_text(TEXT)
        await asyncio.sleep(5 * EVERY_S)
        assert house.counted() == {"applied": 1}
        house.reloading.ask()
        await _until(lambda: house.counted() == {"applied": 2})

    _while_it_runs(house, steps)


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        ("routing: {", "listen: {http_port: 0}\nrouting: {", ["listen.http_port"]),
        ("repository: models", "repository: others", ["endpoints.own.repository"]),
        ("  own: {kind: triton, zone: onprem, embedded: true, repository: models}\n", "",
         ["endpoints.own"]),
        ("repository: models}", "repository: models, reload: true}", ["endpoints.own.reload"]),
        ("a: {spill_budget_usd_per_day: 3}", "a: {profile: strict}",
         ["tenants.a.spill_budget_usd_per_day"]),
        ("routing: {spill_budget_usd_per_day: 5}", "", ["routing.spill_budget_usd_per_day"]),
        ('keys:\n  alpha: {key: "${SPILLWAY_TEST_KEY}", tenant: a}\ntenants:\n'
         "  a: {spill_budget_usd_per_day: 3}\n", "tenants: {}\n",
         ["tenants.a.spill_budget_usd_per_day", "keys"]),
        ("routing: {", "audit: {directory: elsewhere}\nrouting: {", ["audit.directory"]),
        ("routing: {", "classify: {memory: {taint_s: 9}}\nrouting: {", ["classify.memory.taint_s"]),
    ],
)  # fmt: skip
def test_what_needs_a_restart_is_refused_whole_and_named(
    tmp_path: Path, old: str, new: str, keys: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    house = House(tmp_path / "s.yaml")
    before = house.settings
    assert TEXT.count(old) == 1
    text = TEXT.replace(old, new).replace("{endpoint: own}, ", "" if "endpoints.own" in keys else
                                          "{endpoint: own}, ")  # fmt: skip

    async def steps() -> None:
        house.path.write_text(text)
        await _until(lambda: house.counted() == {"needs_restart": 1})
        assert house.settings is before
        assert house.reloading.last is not None
        assert house.reloading.last.document()["needs_restart"] == keys

    _while_it_runs(house, steps)
    assert "restart" in caplog.text
    assert all(key in caplog.text for key in keys)


def test_what_may_change_needs_none() -> None:
    before = parse(TEXT)
    for old, new in (
        ("per_day: 5", "per_day: 500"), ("per_day: 3", "per_day: 0"),
        ("zone: cloud", "zone: onprem"),
        ("127.0.0.1:1", "127.0.0.1:3"), ("embedded: true", "embedded: true, expected_ms: 3"),
        ("tenant: a}", "tenant: a, profile: strict}"), ("  gpu: {", "  new: {kind: kserve, zone: "
        "cloud, url: 'http://127.0.0.1:4'}\n  gpu: {"),
    ):  # fmt: skip
        assert TEXT.count(old) == 1
        after = parse(TEXT.replace(old, new))
        assert changed(before, after)
        assert needs_restart(before, after) == []


def test_no_line_of_the_log_has_a_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    house = House(tmp_path / "s.yaml")

    async def steps() -> None:
        monkeypatch.setenv("SPILLWAY_TEST_KEY", "another-secret-of-alpha")
        house.reloading.ask()
        await _until(lambda: house.counted() == {"applied": 1})

    _while_it_runs(house, steps)
    assert "keys.alpha.key" in caplog.text
    assert "secret-of-alpha" not in caplog.text


def test_gateways_that_share_servers_change_them_with_a_restart() -> None:
    cluster = """
cluster:
  self: east
  listen: {port: 1}
  cert_file: /c
  key_file: /k
  ca_file: /a
  gateways:
    east: {url: "https://127.0.0.1:1", owns: [gpu]}
    west: {url: "https://127.0.0.1:2"}
"""
    text = TEXT.replace(
        "  own: {kind: triton, zone: onprem, embedded: true, repository: models}\n", ""
    ).replace("{endpoint: own}, ", "")
    before = parse(text + cluster)
    queue = parse(text + cluster + "queue: {aging_s: 3}\n")
    assert needs_restart(before, queue) == ["queue.aging_s"]
    keys = parse(text.replace("tenant: a}", "tenant: a, profile: strict}") + cluster)
    assert needs_restart(before, keys) == []


# Secrets


KEY_BY_FILE = TEXT.replace('"${SPILLWAY_TEST_KEY}"', '"${file:%s}"')
KEY_BY_COMMAND = TEXT.replace('"${SPILLWAY_TEST_KEY}"', '"${command:cat %s}"')


def _alpha(house: House) -> str:
    return house.settings.keys["alpha"].key.get_secret_value()


def _write_secret(file: Path, secret: str) -> None:
    part = file.with_suffix(".part")
    part.write_text(secret)
    part.replace(file)


def test_a_file_with_a_secret_is_watched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "key"
    file.write_text("first-secret")
    house = House(tmp_path / "s.yaml", KEY_BY_FILE % file)
    before = house.settings.policy_hash()

    async def steps() -> None:
        _write_secret(file, "second-secret")
        await _until(lambda: house.counted() == {"applied": 1})
        assert _alpha(house) == "second-secret"
        file.unlink()
        await _until(lambda: house.counted() == {"applied": 1, "refused": 1})
        assert _alpha(house) == "second-secret"
        _write_secret(file, "third-secret")
        await _until(lambda: _alpha(house) == "third-secret")

    _while_it_runs(house, steps)
    assert house.settings.policy_hash() == before
    assert "-secret" not in caplog.text


def test_the_file_of_the_environment_is_watched(tmp_path: Path) -> None:
    file = tmp_path / "environment"
    file.write_text("SPILLWAY_TEST_KEY=first-secret\n")
    house = House(tmp_path / "s.yaml", f"{TEXT}reload: {{environment: {file}}}\n")
    assert _alpha(house) == "first-secret"

    async def steps() -> None:
        _write_secret(file, "SPILLWAY_TEST_KEY=second-secret\n")
        await _until(lambda: house.counted() == {"applied": 1})
        assert _alpha(house) == "second-secret"

    _while_it_runs(house, steps)


def test_commands_run_again(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("first-secret")
    house = House(tmp_path / "s.yaml", KEY_BY_COMMAND % file + "reload: {commands_s: 0.04}\n")

    async def steps() -> None:
        await asyncio.sleep(6 * EVERY_S)
        assert house.counted() == {}
        _write_secret(file, "second-secret")
        await _until(lambda: house.counted() == {"applied": 1})
        assert _alpha(house) == "second-secret"
        file.unlink()
        await _until(lambda: house.counted().get("refused", 0) > 0)
        assert _alpha(house) == "second-secret"

    _while_it_runs(house, steps)


FIXED_SECRETS = """
console: {operators: {wall: {key: "${SPILLWAY_TEST_WALL}"}}}
telemetry: {otlp_url: "http://127.0.0.1:3", headers: {x-api-key: "${SPILLWAY_TEST_OTLP}"}}
ledger: {postgres: "${SPILLWAY_TEST_DSN}"}
"""


@pytest.mark.parametrize(
    ("before", "after", "keys"),
    [
        ("postgresql://u:one@h/db", "postgresql://u:two@h/db", []),
        ("postgresql://u:one@h/db", "postgresql://u@h/db", []),
        ("host=h password=one user=u", "host=h password='t w\\'o' user=u", []),
        ("postgresql://h/db?user=u&password=one", "postgresql://h/db?user=u&password=two", []),
        ("postgresql://u:one@h/db", "postgresql://u:one@other/db", ["ledger.postgres"]),
        ("host=h password=one user=u", "host=h password=one user=w", ["ledger.postgres"]),
    ],
)
def test_no_secret_needs_a_restart(
    before: str, after: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("WALL", "wall-1"), ("OTLP", "otlp-1"), ("DSN", before)):
        monkeypatch.setenv(f"SPILLWAY_TEST_{name}", value)
    was = parse(TEXT + FIXED_SECRETS)
    for name, value in (("WALL", "wall-2"), ("OTLP", "otlp-2"), ("DSN", after)):
        monkeypatch.setenv(f"SPILLWAY_TEST_{name}", value)
    now = parse(TEXT + FIXED_SECRETS)
    assert len(changed(was, now)) == 3
    assert needs_restart(was, now) == keys
