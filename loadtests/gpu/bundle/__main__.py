"""Makes the folder that carries the measurements of a card to a machine without a network.

    python -m loadtests.gpu.bundle --out FOLDER
    python -m loadtests.gpu.bundle --out FOLDER --pieces code cuda serving --most-parts 2

and there, with the folder copied:

    bash FOLDER/part1/run.sh

`code`: this checkout, its small models, and minilm with its weights rounded; `cuda`: ONNX Runtime
with CUDA, its kernels for one architecture; `serving`: what `spillway serve` and its embedded
Triton need; `rtx`: TensorRT for RTX. The machine brings Python, NumPy, onnx, tokenizers, httpx,
grpcio, uvloop, rich and prometheus-client, and CUDA's own libraries, as pip packages or otherwise.
What is larger than the limit goes into several parts, for as many transfers; more than
`--most-parts` are refused, and nothing is left.
"""

from __future__ import annotations

import argparse
import lzma
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from loadtests.gpu import WITH_GRAPHS
from loadtests.gpu.bundle import rounding
from loadtests.gpu.bundle.pieces import PIECES, CannotBundle, Target

_OWN = Path(__file__).resolve().parent
_SCRIPTS = ("run.sh", "unpack.py")
_MIB = 1 << 20
_WINDOW = 1 << 26  # the same bytes are found again this far behind


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder that is not there yet")
    parser.add_argument("--pieces", nargs="+", default=["code", "cuda"], choices=PIECES)
    parser.add_argument("--limit-mb", type=float, default=64.0, help="MiB of one part")
    parser.add_argument("--most-parts", type=int, default=1)
    parser.add_argument("--python", default="3.12", help="of the machine")
    parser.add_argument("--architecture", type=int, default=90, help="of the card: 90 for 9.0")
    parser.add_argument("--models", nargs="+", default=WITH_GRAPHS, choices=WITH_GRAPHS)
    parser.add_argument("--levels", type=int, default=rounding.LEVELS, help="of minilm's weights")
    parser.add_argument("--preset", type=int, default=6, help="of xz: 0 is quick, 9 is small")
    parser.add_argument("--wheels", type=Path, help="keep and look for wheels here")
    args = parser.parse_args(arguments)
    if args.out.exists():
        parser.error(f"{args.out} is there already")
    target = Target(args.python, args.architecture, args.levels, tuple(args.models))
    with tempfile.TemporaryDirectory() as scratch:
        try:
            packed = [_packed(name, target, Path(scratch), args) for name in args.pieces]
        except CannotBundle as exc:
            print(f"error: {exc}", file=sys.stderr)
            return 1
        for file in packed:
            print(f"{file.name:16} {file.stat().st_size / _MIB:6.1f} MiB")
        room = int(args.limit_mb * _MIB) - sum((_OWN / name).stat().st_size for name in _SCRIPTS)
        parts = -(-sum(file.stat().st_size for file in packed) // room)
        if parts > args.most_parts:
            print(
                f"error: that makes {parts} parts of {args.limit_mb:g} MiB, and --most-parts is "
                f"{args.most_parts}: leave pieces out or raise it",
                file=sys.stderr,
            )
            return 1
        _divide(packed, args.out, room)
    for part in sorted(args.out.iterdir()):
        size = sum(file.stat().st_size for file in part.iterdir())
        print(f"{part}: {size / _MIB:.1f} MiB")
    print(f"there: bash {args.out.name}/part1/run.sh")
    return 0


def _packed(name: str, target: Target, scratch: Path, args: argparse.Namespace) -> Path:
    print(f"{name} ...", file=sys.stderr, flush=True)
    folder, file = scratch / name, scratch / f"{name}.xz"
    folder.mkdir()
    PIECES[name](folder, target, args.wheels or scratch / "wheels")
    filters = [{"id": lzma.FILTER_LZMA2, "preset": args.preset, "dict_size": _WINDOW}]
    with (
        lzma.open(file, "wb", filters=filters) as packed,
        tarfile.open(fileobj=packed, mode="w|", dereference=True) as archive,
    ):
        for path in sorted(folder.rglob("*"), key=lambda path: (path.suffix, path.name)):
            if path.is_file():
                archive.add(path, path.relative_to(folder), filter=_anonymous)
    shutil.rmtree(folder)
    return file


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _divide(packed: Sequence[Path], out: Path, room: int) -> None:
    """Part after part is filled to the limit; a piece goes on in the next."""
    number, left = 0, 0
    for file in packed:
        with file.open("rb") as source:
            while True:
                if left == 0:
                    number, left = number + 1, room
                    part = out / f"part{number}"
                    part.mkdir(parents=True)
                chunk = source.read(left)
                if not chunk:
                    break
                (part / f"{file.name}.{number:02}").write_bytes(chunk)
                left -= len(chunk)
    for name in _SCRIPTS:
        shutil.copy(_OWN / name, out / "part1" / name)


if __name__ == "__main__":
    sys.exit(main())
