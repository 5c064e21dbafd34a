"""Whatever a registry has, the version that serves is untouched until another one may serve.

Each refusal is held against a real Triton that serves version 1 meanwhile.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer
from gateway.models import configs
from gateway.models.declaration.serving import ServingTarget
from gateway.models.registry import (
    FILES,
    NotThere,
    RegistryError,
    UnfitVersion,
    graph,
    installing,
    workshop,
)
from gateway.models.registry import manifest as manifests
from gateway.models.registry.fetching import Source
from gateway.models.registry.kinds.directory import DirectoryRegistry
from gateway.models.registry.pulling import Pull, RequestedVersion, pull
from gateway.models.registry.pushing import Push, push
from gateway.models.registry.server import Server, over
from tests.unit.models.registry import rig
from tests.unit.models.registry.broken import BROKEN, FAILING, swap
from tests.unit.models.registry.conftest import Site
from tests.unit.models.registry.rig import NAME, declared, fingerprint, pulled

pytestmark = pytest.mark.anyio


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    return rig.shelf(tmp_path)


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_version_leaves_the_one_that_serves_untouched(
    how: str, shelf: Path, site: Site
) -> None:
    broken, told = BROKEN[how]
    broken(shelf / NAME / "2")
    before = fingerprint(site.repository)
    with pytest.raises(RegistryError, match=told):
        pulled(site.repository, DirectoryRegistry(shelf), 2, servers=site.servers)
    assert fingerprint(site.repository) == before
    assert rig.left_over(site.repository) == []
    assert site.serves() == 1


@pytest.mark.parametrize("how", FAILING)
def test_a_version_that_does_not_work_is_taken_out_and_the_one_before_serves(
    how: str, shelf: Path, site: Site
) -> None:
    broken, told = FAILING[how]
    broken(shelf / NAME / "2")
    before = fingerprint(site.repository)
    with pytest.raises(UnfitVersion, match=told):
        pulled(site.repository, DirectoryRegistry(shelf), 2, servers=site.servers)
    assert fingerprint(site.repository) == before
    assert site.serves() == 1


def test_a_good_version_serves_and_the_one_before_can_again(shelf: Path, site: Site) -> None:
    before = fingerprint(site.repository / NAME / "1")
    done = pulled(site.repository, DirectoryRegistry(shelf), servers=site.servers)
    assert (done.version, done.before, done.installed) == (2, 1, True)
    assert len(done.serving) == 1
    assert site.serves() == 2
    again = pulled(site.repository, DirectoryRegistry(shelf), servers=site.servers)
    assert not again.installed
    with workshop.opened(site.repository, NAME) as shop:
        version, _ = installing.roll_back(shop, None, site.servers)
        assert version == 1
        assert site.serves() == 1
        assert shop.withdrawn() == [2]
    with pytest.raises(RegistryError, match="was taken out here; name it with --version 2"):
        pulled(site.repository, DirectoryRegistry(shelf), servers=site.servers)
    assert pulled(site.repository, DirectoryRegistry(shelf), 2, servers=site.servers).installed
    assert site.serves() == 2
    assert fingerprint(site.repository / NAME / "1") == before


def test_a_retrained_version_answers_its_own_canary_back_and_forward(
    tmp_path: Path, site: Site
) -> None:
    shelf = rig.retrained(tmp_path)
    done = pulled(site.repository, DirectoryRegistry(shelf), servers=site.servers)
    assert done.notes[0] == "its model.yaml has its own canary"
    assert site.serves() == 2
    for target in (None, 2, 1, 2):
        with workshop.opened(site.repository, NAME) as shop:
            version, _ = installing.roll_back(shop, target, site.servers)
        assert site.serves() == version == (target or 1)
    again = pulled(site.repository, DirectoryRegistry(shelf), servers=site.servers)
    assert not again.installed


def test_a_version_is_pushed_with_its_own_declaration_and_samples(tmp_path: Path) -> None:
    repository = rig.repository(tmp_path)
    pulled(repository, DirectoryRegistry(rig.retrained(tmp_path)))
    onward = DirectoryRegistry(tmp_path / "onward")
    for number in (1, 2):
        push(Push(repository, NAME, number, wall_s=lambda: rig.BY), onward)
    texts = [(tmp_path / f"onward/{NAME}/{n}/model.yaml").read_text() for n in (1, 2)]
    assert "[0.46906]" in texts[0]
    assert "[0.23453]" in texts[1]
    other = tmp_path / "other"
    other.mkdir()
    for number in (1, 2):
        pulled(other, onward, number)
        canary = declared(other).canary
        assert canary is not None
        assert canary.outputs["score"].first == (0.46906, 0.23453)[number - 1 : number]
        golden = declared(other).verify.golden
        assert (other / NAME / str(number) / golden).exists()
        assert not list((other / NAME / str(number)).glob("*.npz"))  # which may be personal data


def test_a_version_without_its_code_goes_nowhere(tmp_path: Path) -> None:
    repository = rig.repository(tmp_path)
    (repository / NAME / "1" / "model.py").unlink()
    with pytest.raises(UnfitVersion, match=r"has no model\.py"):
        push(Push(repository, NAME), DirectoryRegistry(tmp_path / "shelf"))
    with pytest.raises(UnfitVersion, match=r"has no model\.py"):
        graph.check(repository / NAME / "1", declared(repository))


def test_how_a_model_is_served_here_stays_with_a_version_from_elsewhere(tmp_path: Path) -> None:
    repository = rig.repository(tmp_path)
    path = repository / NAME / "model.yaml"
    own = "embedded: {backend: python, instances: {count: 2}}"
    text = path.read_text().replace("embedded: {backend: python}", own)
    path.write_text(text.replace("delay_us: 500", "delay_us: 700"))
    configs.write(repository / NAME, declared(repository))
    pulled(repository, DirectoryRegistry(rig.retrained(tmp_path)))
    assert declared(repository).targets[ServingTarget.EMBEDDED].instances.count == 2
    config = (repository / NAME / "config.pbtxt").read_text()
    assert "count: 2" in config
    assert "max_queue_delay_microseconds: 700" in config


def test_a_config_by_hand_stays_whichever_version_serves(tmp_path: Path) -> None:
    repository = rig.repository(tmp_path)
    config = repository / NAME / "config.pbtxt"
    config.write_text(config.read_text() + "# by hand\n")
    pulled(repository, DirectoryRegistry(rig.retrained(tmp_path)))
    with workshop.opened(repository, NAME) as shop:
        installing.roll_back(shop, None, [])
    assert config.read_text().endswith("# by hand\n")


def test_a_rollback_to_a_version_that_fails_changes_nothing(shelf: Path, site: Site) -> None:
    pulled(site.repository, DirectoryRegistry(shelf), servers=site.servers)
    model = site.repository / NAME / "1" / "model.py"
    text = model.read_text()
    model.write_text("import nothing_of_that_name\n")
    try:
        with (
            workshop.opened(site.repository, NAME) as shop,
            pytest.raises(RegistryError, match="does not work either, so nothing was changed"),
        ):
            installing.roll_back(shop, None, site.servers)
        assert site.serves() == 2
    finally:
        model.write_text(text)


def test_a_version_is_tried_in_a_triton_of_its_own_before_the_one_that_serves_sees_it(
    shelf: Path, site: Site
) -> None:
    version = shelf / NAME / "2"
    text = (version / FILES / "runtime.py").read_bytes()
    half = swap(text, rig.ANSWERS, rig.HALVED)
    rig.rewritten(version, runtime_dot_py=half)
    asked: list[str] = []

    class Watched(Server):
        def load(self, model: str, version: int) -> None:
            asked.append(model)
            super().load(model, version)

    def servers() -> list[Server]:
        return [Watched(found.url, found.key) for found in site.servers]

    work = Pull(site.repository, Source(DirectoryRegistry(shelf)), servers)
    with pytest.raises(UnfitVersion, match="was tried and failed: the canary's score"):
        pull(work, RequestedVersion(NAME))
    assert asked == []
    assert site.serves() == 1
    rig.rewritten(version, runtime_dot_py=text)
    assert pull(work, RequestedVersion(NAME)).installed
    assert asked == [NAME]
    assert site.serves() == 2
    here = site.repository / NAME / "2"
    assert (
        manifests.differences(
            manifests.parse((version / "manifest.json").read_bytes(), NAME, 2), here
        )
        == []
    )


async def test_a_new_model_comes_with_its_declaration_and_is_served(
    shelf: Path, site: Site
) -> None:
    empty = site.repository.parent / "empty"
    empty.mkdir()

    async with TritonServer(TritonOptions((empty,), reload=True, stop_grace_s=1.0)):
        servers = over(empty, None)
        done = await asyncio.to_thread(
            pulled, empty, DirectoryRegistry(shelf), None, servers=servers
        )
        assert (done.before, len(done.serving)) == (None, 1)
        await asyncio.to_thread(servers[0].ask, declared(empty), 2, 2)
    assert (empty / NAME / "config.pbtxt").read_text() == (
        site.repository / NAME / "config.pbtxt"
    ).read_text()


async def test_a_server_that_takes_nothing_while_it_runs_has_it_from_its_next_start_on(
    shelf: Path, tmp_path: Path
) -> None:
    repository = rig.repository(tmp_path)
    options = TritonOptions((repository,), stop_grace_s=1.0)

    async with TritonServer(options):
        (ours,) = over(repository, None)
        done = await asyncio.to_thread(
            pulled, repository, DirectoryRegistry(shelf), None, servers=[ours]
        )
        assert (done.installed, done.serving, len(done.later)) == (True, (), 1)
        assert ours.serving(NAME) == 1
    async with TritonServer(options):
        assert over(repository, None)[0].serving(NAME) == 2


def test_a_new_model_that_fails_leaves_no_model(shelf: Path, site: Site, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UnfitVersion, match="No version serves"):
        pulled(empty, DirectoryRegistry(shelf), servers=[Server("http://127.0.0.1:9")])
    assert list(empty.iterdir()) == []


def test_a_version_below_the_one_that_serves_is_not_pulled(shelf: Path, tmp_path: Path) -> None:
    repository = rig.repository(tmp_path, 3)
    with pytest.raises(RegistryError, match="version 2 would not serve"):
        pulled(repository, DirectoryRegistry(shelf), 2)


def test_another_version_with_the_same_number_is_not_overwritten(
    shelf: Path, tmp_path: Path
) -> None:
    repository = rig.repository(tmp_path, 2)
    (repository / NAME / "2" / "runtime.py").write_text("another")
    with pytest.raises(RegistryError, match=r"is not the registry's: runtime\.py differs"):
        pulled(repository, DirectoryRegistry(shelf), 2)


def test_two_pulls_of_a_model_do_not_meet(shelf: Path, tmp_path: Path) -> None:
    repository = rig.repository(tmp_path)
    with (
        workshop.opened(repository, NAME),
        pytest.raises(RegistryError, match="another `spillway models` works on fraud_score"),
    ):
        pulled(repository, DirectoryRegistry(shelf))
    assert pulled(repository, DirectoryRegistry(shelf)).installed


def test_a_version_that_is_too_large_is_refused_before_its_files_come(
    shelf: Path, tmp_path: Path
) -> None:
    repository = rig.repository(tmp_path)
    with pytest.raises(UnfitVersion, match="more than the 1000"):
        pulled(repository, DirectoryRegistry(shelf), most_bytes=1000)


@pytest.mark.parametrize("name", ["..", "a/b", "", ".hidden", "x" * 200])
def test_a_name_that_is_no_models_name_goes_nowhere(name: str, tmp_path: Path) -> None:
    work = Pull(tmp_path, Source(DirectoryRegistry(tmp_path)), list)
    with pytest.raises(RegistryError, match="is no name of a model"):
        pull(work, RequestedVersion(name))
    assert list(tmp_path.iterdir()) == []


def test_what_a_registry_does_not_have_is_said_with_what_it_has(
    shelf: Path, tmp_path: Path
) -> None:
    repository = rig.repository(tmp_path)
    with pytest.raises(NotThere, match="its versions: 2"):
        pulled(repository, DirectoryRegistry(shelf), 5)


def test_where_the_repository_is_a_mount_the_workshop_is_inside_the_model(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = rig.repository(tmp_path)
    (tmp_path / ".models.spillway").write_text("nobody can make a directory here")
    assert pulled(repository, DirectoryRegistry(shelf)).installed
    assert (repository / NAME / ".spillway" / "lock").exists()
    assert rig.left_over(repository) == []


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(
        ["manifest.json", "model.yaml", "files/model.onnx", "files/model.py", "files/runtime.py"]
    ),
    at=st.integers(0, 5000),
    cut=st.integers(0, 5000),
    noise=st.binary(max_size=64),
    same_size=st.booleans(),
    refit=st.booleans(),
)
@example(  # ONNX Runtime refuses it without a word
    path="files/model.onnx", at=19, cut=0, noise=b"\x80", same_size=True, refit=True
)
def test_whatever_bytes_a_registry_answers_a_version_is_whole_or_absent(
    path: str,
    at: int,
    cut: int,
    noise: bytes,
    same_size: bool,
    refit: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """With `refit` the manifest is made to agree with the files again."""
    scratch = tmp_path_factory.mktemp("any")
    registry = rig.in_memory(rig.shelf(scratch))
    parts = registry.kept[NAME, 2]
    good = parts[path]
    cut = len(noise) if same_size else cut
    parts[path] = good[: at % (len(good) + 1)] + noise + good[at % (len(good) + 1) + cut :]
    if refit and path != "manifest.json":
        files = {
            p.removeprefix(FILES): manifests.Content(len(raw), manifests.digest(raw))
            for p, raw in parts.items()
            if p.startswith(FILES)
        }
        text = manifests.Content(len(parts["model.yaml"]), manifests.digest(parts["model.yaml"]))
        made = manifests.Manifest(NAME, 2, "2026-11-22T08:00:00Z", text, files)
        parts["manifest.json"] = made.encoded()
    repository = rig.repository(scratch)
    before = fingerprint(repository)
    try:
        pulled(repository, registry)
    except RegistryError:
        assert fingerprint(repository) == before
    else:
        told = manifests.parse(parts["manifest.json"], NAME, 2)
        assert manifests.differences(told, repository / NAME / "2") == []
        shutil.rmtree(repository / NAME / "2")
        assert fingerprint(repository) == before
    assert rig.left_over(repository) == []
    shutil.rmtree(scratch)
