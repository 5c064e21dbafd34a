"""Installs a peer from the public registries into a folder of its own, once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from loadtests.peers import Absent

_INSTALL_S = 900.0


def python(folder: Path, requirements: Sequence[str]) -> Path:
    """The bin folder of an environment with these requirements. Raises Absent."""
    marker = folder / ".installed"
    wanted = "\n".join(requirements)
    if not marker.exists() or marker.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(folder / "bin" / "pip"), "install", "-q", *requirements])
        marker.write_text(wanted)
    return folder / "bin"


def node(folder: Path, packages: Sequence[str]) -> Path:
    """The folder of the modules that were installed. Raises Absent."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise Absent("it needs node and npm")
    marker = folder / ".installed"
    wanted = "\n".join(packages)
    if not marker.exists() or marker.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        # Install scripts are for packages that compile; these do not.
        flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps"]
        _run([npm, "install", *flags, "--prefix", str(folder), *packages])
        marker.write_text(wanted)
    return folder / "node_modules"


def debian(folder: Path, package: str, program: str) -> Path:
    """A program of a Debian package: the system's own, or one unpacked here. Raises Absent."""
    found = shutil.which(Path(program).name)
    if found is not None:
        return Path(found)
    unpacked = folder / program
    if not unpacked.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            raise Absent(f"there is no {Path(program).name}, and no apt-get to fetch it with")
        folder.mkdir(parents=True, exist_ok=True)
        _run(["apt-get", "download", "-q", package], folder)
        for archive in folder.glob(f"{package}_*.deb"):
            _run(["dpkg", "-x", str(archive), str(folder)])
    return unpacked


def _run(command: Sequence[str], cwd: Path | None = None) -> None:
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=_INSTALL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise Absent(f"not installed: {exc}") from exc
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise Absent(f"not installed: {lines[-1][:300] if lines else command}")
