"""Killed at any moment, or out of room: the version that serves still does, and loads again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.models.registry import RegistryError, installing, manifest, workshop
from gateway.models.registry.kinds.directory import DirectoryRegistry
from gateway.models.registry.pushing import Push, push
from gateway.models.registry.server import Server
from tests.live import ROOT
from tests.unit.models.registry import rig
from tests.unit.models.registry.broken import swap
from tests.unit.models.registry.conftest import Site
from tests.unit.models.registry.rig import NAME, fingerprint, pulled

STAGES = (
    "in the middle of fetching", "CHECKING", "INSTALLING", "load", "ask",
    "DONE",
)  # fmt: skip


def driven(stage: str, repository: Path, shelf: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.unit.models.registry.driver", stage]
    return subprocess.run(
        [*command, str(repository), str(shelf)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("stage", STAGES)
def test_a_pull_that_is_killed_leaves_versions_whole_and_the_next_one_finishes(
    stage: str, site: Site, tmp_path: Path
) -> None:
    shelf = rig.shelf(tmp_path)
    before = fingerprint(site.repository / NAME / "1")
    assert driven(stage, site.repository, shelf).returncode == -9
    assert fingerprint(site.repository / NAME / "1") == before
    two = site.repository / NAME / "2"
    told = manifest.parse((shelf / NAME / "2" / "manifest.json").read_bytes(), NAME, 2)
    assert not two.exists() or manifest.differences(told, two) == []
    site.serves()  # and answers the canary, whichever it is
    pulled(site.repository, DirectoryRegistry(shelf), servers=site.servers)
    assert site.serves() == 2
    assert rig.left_over(site.repository) == []
    with workshop.opened(site.repository, NAME) as shop:
        assert shop.pending is None


def test_what_was_killed_before_its_canary_passed_is_taken_out_if_it_fails(
    site: Site, tmp_path: Path
) -> None:
    shelf = rig.shelf(tmp_path)
    version = shelf / NAME / "2"
    text = (version / "files" / "runtime.py").read_bytes()
    rig.rewritten(version, runtime_dot_py=swap(text, rig.ANSWERS, rig.HALVED))
    assert driven("ask", site.repository, shelf).returncode == -9
    with workshop.opened(site.repository, NAME) as shop:
        left = shop.pending
        assert left == workshop.Pending(2, fresh=False)
        installing.recover(shop, site.servers)
    with workshop.opened(site.repository, NAME) as shop:
        assert shop.pending is None
        assert shop.versions() == [1]
        assert shop.withdrawn() == [2]
    assert site.serves() == 1


def test_a_new_model_that_was_killed_half_way_is_taken_out(tmp_path: Path) -> None:
    shelf, empty = rig.shelf(tmp_path), tmp_path / "empty"
    empty.mkdir()
    pulled(empty, DirectoryRegistry(shelf))
    (empty / NAME / "config.pbtxt").unlink()
    with workshop.opened(empty, NAME) as shop:
        shop.note(workshop.Pending(2, fresh=True))
        installing.recover(shop, [])
    assert not (empty / NAME).exists()
    assert pulled(empty, DirectoryRegistry(shelf), 2).installed


def test_a_file_system_that_takes_no_more_leaves_the_version_that_serves(
    site: Site, tmp_path: Path
) -> None:
    shelf = rig.shelf(tmp_path)
    before = fingerprint(site.repository)
    ended = driven("full", site.repository, shelf)
    assert ended.returncode == 1
    assert "no room on the disk of" in ended.stderr
    assert "The version that serves was not touched" in ended.stderr
    assert fingerprint(site.repository) == before
    assert rig.left_over(site.repository) == []
    assert site.serves() == 1
    assert driven("whole", site.repository, shelf).returncode == 0
    assert site.serves() == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Of 256 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode != 0:
        pytest.skip("only who may mount can make a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_without_room_is_noticed_before_anything_comes(
    small_disk: Path, tmp_path: Path
) -> None:
    repository = rig.repository(small_disk)
    before = fingerprint(repository)
    with pytest.raises(RegistryError, match="Make room, then pull again"):
        pulled(repository, DirectoryRegistry(rig.shelf(tmp_path)))
    assert fingerprint(repository) == before
    assert rig.left_over(repository) == []


def test_a_push_to_a_full_disk_leaves_no_version(small_disk: Path, tmp_path: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (252 << 10))
    other = rig.repository(tmp_path, 2)
    shelf = DirectoryRegistry(small_disk / "shelf")
    with pytest.raises(RegistryError, match="no room for"):
        push(Push(other, NAME), shelf)
    filler.unlink()
    assert shelf.versions(NAME) == []
    push(Push(other, NAME), shelf)
    assert shelf.versions(NAME) == [2]
    assert [p for p in (small_disk / "shelf" / NAME).iterdir() if p.name.startswith(".push")] == []


def test_a_server_that_went_away_is_told_and_the_version_taken_out(tmp_path: Path) -> None:
    repository = rig.repository(tmp_path)
    gone = Server("http://127.0.0.1:9")
    with pytest.raises(RegistryError, match="Restart the gateway, which loads it"):
        pulled(repository, DirectoryRegistry(rig.shelf(tmp_path)), servers=[gone])
    assert sorted(p.name for p in (repository / NAME).iterdir() if p.is_dir()) == ["1", "configs"]
    assert os.listdir(repository) == [NAME]
    shutil.rmtree(repository)
