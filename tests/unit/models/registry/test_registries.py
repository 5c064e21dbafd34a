"""What holds of every kind of registry, over real servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from gateway.config import RegistrySettings
from gateway.models.registry import (
    FILES,
    MANIFEST,
    ModelRegistry,
    NotThere,
    RegistryDenied,
    RegistryError,
    VersionExists,
)
from gateway.models.registry.kinds import address
from gateway.models.registry.pushing import Push, push
from tests.unit.models.registry import rig, servers
from tests.unit.models.registry.rig import NAME, pulled

KINDS = ("directory", "website", "object store", "mlflow")


@dataclass
class Kept:
    """One registry with version 2 in it, as it is written and as it is read."""

    kind: str
    read: RegistrySettings
    write: RegistrySettings


@pytest.fixture(scope="module", params=KINDS)
def kept(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kept]:
    scratch = tmp_path_factory.mktemp("registry")
    with ExitStack() as stack:
        opened = {
            "directory": _directory, "website": _website, "object store": _object_store,
            "mlflow": _mlflow,
        }[request.param](scratch, stack)  # fmt: skip
        found = Kept(request.param, *opened)
        other = rig.repository(scratch / "elsewhere", 2)
        push(Push(other, NAME), address.opened(found.write))
        yield found


def _directory(scratch: Path, stack: ExitStack) -> tuple[RegistrySettings, RegistrySettings]:
    settings = RegistrySettings(url=f"file://{scratch}/shelf")
    return settings, settings


def _website(scratch: Path, stack: ExitStack) -> tuple[RegistrySettings, RegistrySettings]:
    (scratch / "shelf").mkdir()
    url = stack.enter_context(servers.website(scratch / "shelf"))
    return RegistrySettings(url=url), RegistrySettings(url=str(scratch / "shelf"))


def _object_store(scratch: Path, stack: ExitStack) -> tuple[RegistrySettings, RegistrySettings]:
    host, key, secret = stack.enter_context(servers.object_store(scratch))
    settings = RegistrySettings(
        url=f"s3+http://{host}/models/some/where",
        access_key=SecretStr(key),
        secret_key=SecretStr(secret),
    )
    return settings, settings


def _mlflow(scratch: Path, stack: ExitStack) -> tuple[RegistrySettings, RegistrySettings]:
    host = stack.enter_context(servers.mlflow(scratch))
    settings = RegistrySettings(url=f"mlflow+http://{host}", api_key=SecretStr("unused"))
    return settings, settings


@pytest.fixture
def registry(kept: Kept) -> Iterator[ModelRegistry]:
    found = address.opened(kept.read)
    yield found
    found.close()


def _all(registry: ModelRegistry, path: str, start: int = 0) -> bytes:
    with registry.read(NAME, 2, path, start) as pieces:
        return b"".join(pieces)


def test_what_was_pushed_is_listed_and_can_be_pulled(
    registry: ModelRegistry, tmp_path: Path
) -> None:
    assert registry.versions(NAME) == [2]
    repository = rig.repository(tmp_path)
    assert pulled(repository, registry).version == 2
    here, there = repository / NAME / "2", rig.repository(tmp_path / "other", 2) / NAME / "2"
    own = {"model.yaml", "expected.json"}
    assert rig.fingerprint(here).keys() - rig.fingerprint(there).keys() == own
    assert rig.fingerprint(there).items() <= rig.fingerprint(here).items()


def test_it_is_read_from_any_byte_on(registry: ModelRegistry) -> None:
    whole = _all(registry, f"{FILES}runtime.py")
    assert len(whole) > 100
    for start in (1, 99, len(whole) - 1):
        assert _all(registry, f"{FILES}runtime.py", start) == whole[start:]


def test_a_version_does_not_change_once_it_is_there(kept: Kept, tmp_path: Path) -> None:
    registry = address.opened(kept.write)
    before = _all(registry, MANIFEST)
    other = rig.repository(tmp_path, 2)
    (other / NAME / "2" / "runtime.py").write_text("another\n")
    with pytest.raises(VersionExists):
        push(Push(other, NAME), registry)
    assert _all(registry, MANIFEST) == before
    assert pulled(rig.repository(tmp_path / "pulls"), registry).version == 2
    registry.close()


def test_what_is_not_there_is_said_to_be_not_there(registry: ModelRegistry) -> None:
    assert registry.versions("nothing") == []
    with pytest.raises(NotThere):
        _all(registry, f"{FILES}nothing")
    with pytest.raises(NotThere), registry.read(NAME, 9, MANIFEST, 0) as pieces:
        list(pieces)
    with pytest.raises(NotThere):
        registry.alias(NAME, "nobody")


def test_it_lists_the_files_of_a_version_where_it_can(kept: Kept, registry: ModelRegistry) -> None:
    named = {
        "manifest.json",
        "model.yaml",
        "files/expected.json",
        "files/model.onnx",
        "files/model.py",
        "files/ort_session.py",
        "files/runtime.py",
    }
    assert registry.listing(NAME, 2) == (None if kept.kind == "website" else named)


@pytest.mark.parametrize("kept", ["object store"], indirect=True)
def test_an_object_store_takes_no_other_key(kept: Kept) -> None:
    wrong = kept.read.model_copy(update={"secret_key": SecretStr("another")})
    with pytest.raises(RegistryDenied, match="check the credentials"):
        address.opened(wrong).versions(NAME)


@pytest.mark.parametrize("kept", ["mlflow"], indirect=True)
def test_mlflow_knows_aliases_and_versions_that_are_not_ours(kept: Kept, tmp_path: Path) -> None:
    registry = address.opened(kept.write)
    other = rig.repository(tmp_path, 7)
    push(Push(other, NAME), registry)
    base = kept.read.url.removeprefix("mlflow+") + "/api/2.0/mlflow"
    with httpx.Client(trust_env=False) as client:
        for alias, counted in (("champion", "1"), ("challenger", "2")):
            body = {"name": NAME, "alias": alias, "version": counted}
            client.post(f"{base}/registered-models/alias", json=body).raise_for_status()
        found = client.get(
            f"{base}/model-versions/get", params={"name": NAME, "version": "1"}
        ).json()["model_version"]
        theirs = {k: found[k] for k in ("name", "source", "run_id")}
        client.post(f"{base}/model-versions/create", json=theirs).raise_for_status()
    assert registry.versions(NAME) == [2, 7]
    assert registry.alias(NAME, "champion") == 2
    assert registry.alias(NAME, "challenger") == 7
    gone = {"name": NAME, "version": "2"}
    with httpx.Client(trust_env=False) as client:
        client.request("DELETE", f"{base}/model-versions/delete", json=gone).raise_for_status()
    registry.close()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("ftp://host/x", "no kind of registry"),
        ("s3://host", "has no bucket"),
        ("file://host/x", "three slashes"),
        ("https://user:pass@host/x", "credentials go into the settings"),
        ("https://host/x?token=1", "credentials go into the settings"),
        ("https://", "no kind of registry"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str, told: str) -> None:
    with pytest.raises(RegistryError, match=told):
        address.opened(RegistrySettings(url=url))


@pytest.mark.parametrize("kind", ["http", "mlflow+http", "s3+http"])
def test_credentials_do_not_go_over_plain_http(kind: str) -> None:
    more: dict[str, SecretStr] = {"api_key": SecretStr("t")}
    if kind.startswith("s3"):
        more = {"access_key": SecretStr("a"), "secret_key": SecretStr("b")}
    settings = RegistrySettings(url=f"{kind}://models.hospital/b", **more)
    with pytest.raises(RegistryError, match="plain HTTP, which would show the credentials"):
        address.opened(settings)
    address.opened(RegistrySettings(url=f"{kind}://models.hospital/b")).close()
