"""Joins the pieces of a bundle, unpacks them and puts each in its place; standard library alone.

python unpack.py FOLDER INTO
"""

from __future__ import annotations

import ctypes
import io
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_SAFELY: Any = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}  # since 3.11.4


class Joined(io.RawIOBase):
    """Files one behind the other."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files = [path.open("rb") for path in paths]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._files:
            if count := self._files[0].readinto(buffer):
                return count
            self._files.pop(0).close()
        return 0


def main() -> None:
    folder, into = Path(sys.argv[1]), Path(sys.argv[2])
    chunks = sorted(folder.parent.glob("part*/*.xz.*"), key=lambda path: path.name)
    for name in sorted({path.name.rpartition(".")[0] for path in chunks}):
        own = [path for path in chunks if path.name.rpartition(".")[0] == name]
        print(f"unpacking {name} ({sum(p.stat().st_size for p in own) / 1e6:.1f} MB)", flush=True)
        with (
            io.BufferedReader(Joined(own), 1 << 20) as joined,
            lzma.open(joined) as plain,
            tarfile.open(fileobj=plain, mode="r|") as archive,
        ):
            archive.extractall(into, **_SAFELY)
    place_python(into)
    python = environment(into)
    rounded = into / "rounded"
    for weights in rounded.glob("*") if rounded.exists() else ():
        graph = into / "code/models" / weights.name / "1/model.onnx"
        command = [str(python), "-m", "loadtests.gpu.bundle.rounding", str(weights), str(graph)]
        subprocess.run(command, check=True)


def environment(into: Path) -> Path:
    """A virtual environment over the bundle's packages and then the machine's: the embedded
    Triton's stubs ignore PYTHONPATH and go by the environment of their Python."""
    venv.EnvBuilder(symlinks=True).create(into / "venv")
    given = os.environ.get("PYTHONPATH", "").split(":")
    of_machine = [*given, *(at for at in sys.path if at.endswith("-packages"))]
    lines = [str(into / "site"), str(into / "code"), *filter(None, of_machine)]
    (packages,) = (into / "venv/lib").glob("python*/site-packages")
    (packages / "bundle.pth").write_text("\n".join(lines) + "\n")
    return into / "venv/bin/python"


def place_python(into: Path) -> None:
    """Python's shared library, which the embedded Triton's stub needs, where the machine has none:
    its modules go along, since a Python that lacks the one may have the others built in."""
    carried = into / "python"
    if not carried.exists():
        return
    name = f"libpython{sys.version_info.major}.{sys.version_info.minor}.so.1.0"
    try:
        ctypes.CDLL(name)
    except OSError:
        print(f"{name} is not here: taking the one that came along")
        (into / "lib").mkdir(exist_ok=True)
        shutil.copy(carried / name, into / "lib" / name)
        shutil.copytree(carried / "modules", into / "site", dirs_exist_ok=True)


if __name__ == "__main__":
    main()
