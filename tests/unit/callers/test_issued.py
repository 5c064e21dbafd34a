"""B6: keys that were issued are known to gateways that run; revoked ones are refused in time."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from gateway.auth import Callers
from gateway.auth.issued import POLL_S, TRUSTED_S
from gateway.auth.key_store import KeyRecord, KeyStore, KeyStoreUnreadable, NoSuchKey
from gateway.config import TenantSettings
from gateway.core.errors import Unauthenticated, Unverifiable
from gateway.core.types import EVERYWHERE, ONPREM_ONLY, Tightening
from tests.unit.callers.rig import Vault


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path)


def test_a_key_that_was_issued_names_its_tenant(vault: Vault) -> None:
    key = vault.create("acme")
    other = vault.create("globex")
    vault.issued.poll()
    assert vault.tenant_of(key) == "acme"
    assert vault.tenant_of(other) == "globex"


def test_a_key_issued_while_the_gateway_runs_is_known_after_the_next_look(vault: Vault) -> None:
    vault.issued.poll()
    key = vault.create()
    with pytest.raises(Unauthenticated):
        vault.tenant_of(key)
    vault.times.pass_s(POLL_S)
    vault.issued.poll()
    assert vault.tenant_of(key) == "acme"


def test_a_revoked_key_is_refused_after_the_next_look(vault: Vault) -> None:
    key = vault.create()
    vault.issued.poll()
    vault.store.revoke(key[7:19], vault.times.wall_s)
    vault.issued.poll()
    with pytest.raises(Unauthenticated):
        vault.tenant_of(key)
    assert vault.refusals == [("issued", "revoked")]


def test_a_key_that_nobody_could_look_at_for_five_seconds_is_not_accepted(vault: Vault) -> None:
    """Whatever kept the gateway from looking: it may have been revoked meanwhile."""
    key = vault.create()
    vault.issued.poll()
    vault.times.pass_s(TRUSTED_S)
    assert vault.tenant_of(key) == "acme"
    vault.times.pass_s(0.001)
    with pytest.raises(Unverifiable) as caught:
        vault.tenant_of(key)
    assert (caught.value.http_status, caught.value.grpc_status) == (503, "UNAVAILABLE")
    assert caught.value.retry_after_s
    vault.issued.poll()
    assert vault.tenant_of(key) == "acme"


def test_a_look_counts_from_when_it_began(vault: Vault) -> None:
    """One that takes long saw the file as it was at its beginning, or later."""
    key = vault.create()
    read = vault.issued._reader.changed

    def slow() -> list[KeyRecord] | None:
        found = read()
        vault.times.pass_s(4.0)
        return found

    vault.issued._reader.changed = slow  # type: ignore[method-assign]
    vault.issued.poll()
    vault.times.pass_s(1.001)
    with pytest.raises(Unverifiable):
        vault.tenant_of(key)


def damaged(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("spoil", [damaged, gone])
def test_a_store_that_cannot_be_read_lets_nobody_in_for_longer_than_five_seconds(
    vault: Vault, spoil: object, caplog: pytest.LogCaptureFixture
) -> None:
    key = vault.create()
    vault.issued.poll()
    whole = vault.path.read_bytes()
    spoil(vault.path)  # type: ignore[operator]
    vault.times.pass_s(TRUSTED_S)
    for _ in range(3):
        vault.issued.poll()
    assert vault.tenant_of(key) == "acme"
    vault.times.pass_s(0.1)
    with pytest.raises(Unverifiable):
        vault.tenant_of(key)
    assert [r.levelname for r in caplog.records] == ["ERROR"], "once, not with every look"
    vault.path.write_bytes(whole)
    vault.issued.poll()
    assert vault.tenant_of(key) == "acme"


def test_a_store_that_another_file_took_the_place_of_is_read_anew(
    vault: Vault, tmp_path: Path
) -> None:
    key = vault.create()
    vault.issued.poll()
    copy = tmp_path / "copy.db"
    shutil.copy(vault.path, copy)
    file = sqlite3.connect(copy)
    file.execute("DELETE FROM keys")
    file.commit()
    file.close()
    copy.replace(vault.path)
    vault.issued.poll()
    with pytest.raises(Unauthenticated):
        vault.tenant_of(key)


def test_nothing_is_read_while_nothing_has_changed(vault: Vault) -> None:
    vault.create()
    reader = vault.issued._reader
    assert reader.changed() is not None
    assert reader.changed() is None
    vault.create()
    assert reader.changed() is not None


def test_a_key_ends_when_it_expires_though_nothing_is_looked_at(vault: Vault) -> None:
    key = vault.create(expires=vault.times.wall_s + 2.0)
    vault.issued.poll()
    assert vault.tenant_of(key) == "acme"
    vault.times.pass_s(2.0)
    with pytest.raises(Unauthenticated):
        vault.tenant_of(key)
    assert vault.refusals == [("issued", "expired")]


def test_the_secret_counts_and_not_the_id_alone(vault: Vault) -> None:
    """A key of the right form, with the id of one and another secret."""
    from gateway.auth import key_form  # beside its only use

    key, other = vault.create(), vault.create()
    vault.issued.poll()
    begun = key[:20] + other[20:63]
    forged = begun + key_form._check(begun)
    assert key_form.public_id(forged) == key_form.public_id(key)
    with pytest.raises(Unauthenticated):
        vault.tenant_of(forged)
    assert vault.refusals == [("issued", "wrong_secret")]


def test_whoever_is_refused_is_not_told_why(vault: Vault) -> None:
    expired, revoked, unknown = (vault.create(expires=e) for e in (1.0, None, None))
    vault.store.revoke(revoked[7:19], 0.0)
    vault.issued.poll()
    vault.store._file.execute("DELETE FROM keys WHERE id = ?", (unknown[7:19],))
    vault.issued.poll()
    told = set()
    for key in (expired, revoked, unknown, unknown[:-1], "sk-spw-", "other"):
        with pytest.raises(Unauthenticated) as caught:
            vault.tenant_of(key)
        told.add(caught.value.message)
        assert key not in caught.value.message
    assert len(told) == 1
    assert [why for _, why in vault.refusals] == [
        "expired", "revoked", "unknown", "malformed", "malformed", "unknown",
    ]  # fmt: skip


def test_the_scope_of_a_key_holds(vault: Vault) -> None:
    key = vault.create(
        models=("chat",), placement="onprem", latency_budget_ms=250, most_urgent_priority=4,
        requests_per_minute=60, profile="strict",
    )  # fmt: skip
    vault.issued.poll()
    found = vault.callers.identify(f"Bearer {key}")
    assert found.may_use("chat")
    assert not found.may_use("other")
    assert found.zones == ONPREM_ONLY
    assert found.latency_budget_s == 0.25
    assert found.most_urgent == 4
    assert found.tightening == Tightening("strict")
    (quota,) = found.quotas
    assert (quota.kind, quota.requests_per_minute) == ("key", 60)
    assert found.pseudonymise is False


def test_the_floor_of_its_tenant_holds_for_an_issued_key(tmp_path: Path) -> None:
    vault = Vault(tmp_path, {"acme": TenantSettings(placement="onprem", max_concurrent=3)})
    key, other = vault.create("acme"), vault.create("globex")
    vault.issued.poll()
    found = vault.callers.identify(f"Bearer {key}")
    assert found.zones == ONPREM_ONLY
    assert [(q.holder, q.concurrent) for q in found.quotas] == [("tenant acme", 3)]
    assert vault.callers.identify(f"Bearer {other}").zones == EVERYWHERE


def test_a_scope_of_a_later_version_is_refused_and_not_read_in_part(vault: Vault) -> None:
    key = vault.create()
    vault.store._file.execute("UPDATE keys SET scope = ?", ('{"regions": ["eu"]}',))
    vault.issued.poll()
    with pytest.raises(Unauthenticated):
        vault.tenant_of(key)


def test_a_key_that_restricts_what_nobody_looks_for_stays_on_the_premises(vault: Vault) -> None:
    """It was issued after the scans had been built."""
    vault.callers.scans_are_built(lambda added: added.profile != "strict")
    strict, usual = vault.create(profile="strict"), vault.create()
    vault.issued.poll()
    assert vault.callers.identify(f"Bearer {strict}").zones == ONPREM_ONLY
    assert vault.callers.identify(f"Bearer {usual}").zones == EVERYWHERE


def test_a_type_that_only_an_issued_key_names_is_not_looked_for_at_the_start(vault: Vault) -> None:
    """Or a key of a type that does not exist would keep the gateway from starting."""
    vault.create(profile="strict", restrict=("NO_SUCH_TYPE",), threshold=0.1)
    vault.issued.poll()
    assert vault.callers.tightenings() == {Tightening("strict", frozenset(), 0.1)}


def test_no_key_and_no_digest_of_a_secret_alone_is_on_the_disk(vault: Vault) -> None:
    key = vault.create()
    vault.store.close()
    kept = b"".join(p.read_bytes() for p in vault.path.parent.iterdir())
    assert key.encode() not in kept
    assert key[20:].encode() not in kept
    assert stat.S_IMODE(vault.path.stat().st_mode) == 0o600


def test_a_rotated_key_works_beside_the_new_one_and_then_ends(vault: Vault) -> None:
    old = vault.create(models=("chat",))
    record = vault.store.all()[0]
    new = vault.create(models=("chat",))  # its record is written again, as a rotation does
    made = vault.store.all()[1]
    vault.store._file.execute("DELETE FROM keys WHERE id = ?", (made.id,))
    vault.store.rotate(record.id, made, vault.times.wall_s + 60)
    vault.issued.poll()
    assert vault.tenant_of(old) == vault.tenant_of(new) == "acme"
    for _ in range(60):
        vault.times.pass_s(1.0)
        vault.issued.poll()
    with pytest.raises(Unauthenticated):
        vault.tenant_of(old)
    assert vault.tenant_of(new) == "acme"


def test_a_rotation_never_makes_a_key_live_longer(vault: Vault) -> None:
    ends = vault.times.wall_s + 5
    vault.create(expires=ends)
    (record,) = vault.store.all()
    other = KeyRecord("x" * 12, b"", "acme", "", "{}", vault.times.wall_s)
    vault.store.rotate(record.id, other, vault.times.wall_s + 60)
    assert {r.id: r.expires for r in vault.store.all()}[record.id] == ends


def test_a_key_that_is_not_there_cannot_be_revoked_or_rotated(vault: Vault) -> None:
    record = KeyRecord("y" * 12, b"", "acme", "", "{}", 0.0)
    with pytest.raises(NoSuchKey):
        vault.store.revoke("nobody", 0.0)
    with pytest.raises(NoSuchKey):
        vault.store.rotate("nobody", record, 0.0)
    assert vault.store.all() == [], "nothing of a rotation that failed stays"


def test_ten_thousand_keys_are_found_by_one_comparison(vault: Vault) -> None:
    """A lookup does not grow with the number of keys: the view is a table by id."""
    key = vault.create()
    vault.store._file.execute("BEGIN")
    for at in range(10_000):
        vault.store._insert(KeyRecord(f"{at:012d}", bytes(32), "t", "", "{}", 0.0))
    vault.store._file.execute("COMMIT")
    vault.issued.poll()
    assert len(vault.issued._keys) == 10_001
    assert vault.tenant_of(key) == "acme"


def test_a_store_in_a_place_that_is_a_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(KeyStoreUnreadable, match=str(tmp_path)):
        KeyStore(tmp_path)


def test_an_empty_store_is_not_development_mode(vault: Vault) -> None:
    vault.issued.poll()
    assert not vault.callers.anybody
    with pytest.raises(Unauthenticated):
        vault.callers.identify("")
    assert Callers({}).anybody
