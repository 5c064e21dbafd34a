"""One real Triton over a repository of one model, for all tests of pulls."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer
from gateway.models.registry import workshop
from gateway.models.registry.server import Server, over
from tests.live import LoopThread
from tests.unit.models.registry import rig
from tests.unit.models.registry.rig import NAME, declared


@dataclass
class Site:
    """A repository that a real Triton serves."""

    repository: Path

    @property
    def servers(self) -> list[Server]:
        return over(self.repository, None)

    def serves(self) -> int:
        """The version, which answers the canary."""
        (server,) = self.servers
        version = server.serving(NAME)
        server.ask(declared(self.repository), version, 3)
        return version

    def restore(self) -> None:
        """Version 1 alone, as if nothing had ever been pulled."""
        shutil.rmtree(self.repository.parent / ".models.spillway", ignore_errors=True)
        with workshop.opened(self.repository, NAME) as shop:
            for version in shop.versions()[1:]:
                shutil.rmtree(self.repository / NAME / str(version))
        (server,) = self.servers
        server.load(NAME, 1)


@pytest.fixture(scope="session")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")
    repository = rig.repository(tmp_path_factory.mktemp("site"))
    loop = LoopThread()
    server = TritonServer(TritonOptions((repository,), reload=True, stop_grace_s=1.0))
    loop.run(server.start())
    yield Site(repository)
    loop.run(server.aclose())
    loop.close()


@pytest.fixture
def site(_site: Site) -> Iterator[Site]:
    yield _site
    _site.restore()
