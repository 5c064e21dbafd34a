"""The page that is checked in is what its sources build, and asks for nothing from elsewhere."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.server.console.page import STATIC, files

WEB = Path(__file__).parents[3] / "gateway" / "server" / "console" / "web"
_BUILT_FROM = ("public/icon.svg", "index.html", "package-lock.json", "vite.config.js")


def test_the_page_was_built_from_the_sources_beside_it() -> None:
    """As vite.config.js makes the digest."""
    sources = [f"src/{path.name}" for path in (WEB / "src").iterdir()]
    digest = hashlib.sha256()
    for name in sorted([*sources, *_BUILT_FROM]):
        digest.update(name.encode() + b"\0" + (WEB / name).read_bytes() + b"\0")
    told = (STATIC / "source.sha256").read_text().strip()
    assert digest.hexdigest() == told, "run `npm ci && npm run build` in gateway/server/console/web"


def test_a_build_gives_the_same_bytes(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("node is not installed")
    if not (WEB / "node_modules").is_dir():
        pytest.skip("run `npm ci` in gateway/server/console/web first")
    ended = subprocess.run(
        [npm, "run", "build", "--", "--outDir", str(tmp_path), "--emptyOutDir"],
        cwd=WEB, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    for path in STATIC.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


def test_the_bundle_is_small() -> None:
    """150 KB as they go over a line that compresses; the gateway sends them as they are."""
    assert sum(len(gzip.compress(file.content)) for file in files().values()) < 40_000


def test_the_lock_names_no_registry() -> None:
    lock = (WEB / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert lock.count('"integrity"') > 5
