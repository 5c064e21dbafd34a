"""An ONNX file becomes a model of the repository, or the next version of one that is there."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from gateway.config import ConfigError
from gateway.endpoints.batch_rows.rows import RowVerdict
from gateway.models import batching, configs, declaration, graph, versions
from gateway.models.adoption import draft, exported, extents
from gateway.models.declaration import Declaration, succession
from gateway.models.failures import GateClosed, ModelCommandFailed, WrongModel
from gateway.models.registry import workshop
from gateway.models.samples import Cutter, numpy_dtype
from gateway.models.sessions import Level, Session
from gateway.models.variants import build, verify
from gateway.models.variants.engines import EngineBuilder

log = logging.getLogger(__name__)

Report = Callable[[str], None]
_CODE = ("model.py", "ort_session.py", "runtime.py")
_TEXT_CODE = ("text_pieces.py",)
_GRAPH = "model.onnx"  # of a draft
_SERVED = Path(__file__).parent.parent / "served"  # no package: Triton imports what is in it
_CANARY_VALUES = 4
_CANARY_SIZE = 4  # of a free axis
_CANARY_TEXT = "A small inference whose answer is known."


@dataclass(frozen=True, slots=True)
class Adopted:
    directory: Path
    version: int
    drafted: bool  # its model.yaml is to be completed
    verified: verify.VariantVerification
    unbatched: RowVerdict | None = None  # why its model.yaml has dynamic batching off from now on
    built: build.BuildResult = field(default_factory=build.BuildResult)


def adopt(
    repository: Path,
    file: Path,
    given: draft.DraftDetails,
    declared_in: Path | None,
    report: Report,
    builders: Sequence[EngineBuilder] | None = None,
    optional: Collection[str] = (),
) -> Adopted:
    """Everything is made beside the repository's models and moved there when it is whole and
    verified. `file`: of the graph, or a folder of an export. `builders`: of engines; None: no
    variant is made. `optional`: as of `build.build`. Raises ModelFailed or ConfigError; what
    serves is then as it was."""
    if not repository.is_dir():
        raise WrongModel(f"{repository}: is no directory; name one with --repository")
    report(f"reading {file}")
    export = exported.read(file, given.tokenizer)
    if given.tokenizer is None and draft.takes_pieces(export.signature.inputs):
        given = replace(given, tokenizer=export.tokenizer)
    versions.swept(repository)
    directory = repository / given.name
    with versions.staging(repository) as staged:
        made = staged / given.name
        before, number = versions.versions(directory), 1
        if before:
            number = max((*before, *workshop.withdrawn(repository, given.name))) + 1
            shutil.copytree(directory, made, ignore=_not_carried(before[-1]))
            os.rename(made / str(before[-1]), made / str(number))
        drafts = not (made / declaration.FILE).exists() and declared_in is None
        try:
            adopted = _made(made, number, export, given, declared_in, drafts, report)
            if builders is not None:
                adopted = _with_variants(adopted, builders, optional, export.file, report)
        except (ModelCommandFailed, ConfigError) as exc:
            text = _named(str(exc), made, number, export.file)
            if drafts and isinstance(exc, (extents.UnknownExtents, GateClosed)):
                text += _save_draft(made / declaration.FILE, export.file)
            raise type(exc)(text) from None
        if before:
            _replace(made, directory, number)
        else:
            versions.place(made, directory)
    if adopted.unbatched is not None:
        log.warning(
            "%s: its rows are %s; served without dynamic batching", given.name, adopted.unbatched
        )
    return replace(adopted, directory=directory)


def _made(
    made: Path,
    number: int,
    export: exported.Export,
    given: draft.DraftDetails,
    declared_in: Path | None,
    drafts: bool,
    report: Report,
) -> Adopted:
    """The whole model in its staging directory, verified."""
    _put(made, number, export, given, declared_in)
    declared = versions.declared(made)
    build.check(versions.graph_file(made, declared), declared, report)
    report("trying rows together and alone")
    # guard: E4.adopted-model -> unbatched = None
    declared, unbatched = _with_batching(made, declared)
    if drafts and declared.canary is None:
        declared = _with_canary(made, declared)
    elif number > 1 and declared_in is None:
        declared = _with_canary_answer(made, declared)
    configs.write(made, declared)
    verified = verify.verify(made, declared, report, update=True)
    if not verified.ok:  # guard: V1.canary-answer
        raise GateClosed(f"{export.file}: {_why(verified)}; nothing was added")
    return Adopted(made, number, drafts, verified, unbatched)


def _with_variants(
    adopted: Adopted,
    builders: Sequence[EngineBuilder],
    optional: Collection[str],
    file: Path,
    report: Report,
) -> Adopted:
    """A draft allows no precision that cannot be made: nobody has said that it must be."""
    at = versions.declaration_file(adopted.directory)
    declared = versions.declared(adopted.directory)
    own = build.source_precision(declared)
    drafted = [p for p in declared.precisions if adopted.drafted and p is not own]
    built = build.build(adopted.directory, declared, builders, report, {*optional, *drafted})
    text = at.read_text(encoding="utf-8")
    for precision in (p for p in drafted if p.value in built.left_out):
        text = text.replace(f", {precision.value}]", "]", 1)
    at.write_text(text, encoding="utf-8")
    left_out = {
        name: _named(why, adopted.directory, adopted.version, file)
        for name, why in built.left_out.items()
    }
    return replace(adopted, built=replace(built, left_out=left_out))


def _named(text: str, made: Path, number: int, file: Path) -> str:
    """What failed, by the names that its owner knows."""
    staged = made / str(number) / _GRAPH
    return text.replace(str(staged), str(file)).replace(f"{made}/", f"{made.name}/")


def _save_draft(drafted: Path, file: Path) -> str:
    """The draft of what failed, beside its file, to be completed; one that is there stays."""
    at = file.with_suffix(".model.yaml")
    with contextlib.suppress(OSError):
        if not at.exists():
            shutil.copyfile(drafted, at)
    if not at.exists():
        return ""
    return f". Its draft is {at}: complete it and give it with --declaration"


def _not_carried(last: int) -> Callable[[str, list[str]], set[str]]:
    """Of a new version: the old numbers but the last, and what was made from the old graph."""

    def ignored(at: str, names: list[str]) -> set[str]:
        if Path(at).name == str(last):
            made = (".optimised.", ".fp16.", ".bf16.", ".int8.", ".plan", ".rtx")
            return {
                n
                for n in names
                if any(m in n for m in made) or n in ("variants.json", "__pycache__")
            }
        old = {n for n in names if n.isdecimal() and n != str(last)}
        return old | {n for n in names if n.startswith(".staging-")}

    return ignored


def _put(
    made: Path,
    number: int,
    export: exported.Export,
    given: draft.DraftDetails,
    declared_in: Path | None,
) -> None:
    version = made / str(number)
    version.mkdir(parents=True, exist_ok=True)
    held = versions.declaration_file(made)
    before = versions.declared(made) if held.exists() else None
    # The first version's is the model's: people complete it there.
    own = (made if before is None else version) / declaration.FILE
    drafts = declared_in is None and before is None
    if declared_in is not None:
        shutil.copyfile(declared_in, own)
    elif before is not None:
        text = held.read_text(encoding="utf-8")
        own.write_text(succession.next_text(text, versions.sha256(export.file)), encoding="utf-8")
    else:
        export.write(version / _GRAPH, _CODE)
        _draft(own, version / _GRAPH, export, given)
    declared = versions.declared(made)
    if before is not None and (what := succession.other_interface(before, declared)):
        raise WrongModel(
            f"{declared_in}: declares other {what} than the version before; a model that is called "
            "differently needs another name"
        )
    if declared.graph is None:
        raise WrongModel(f"{given.name}: its model.yaml has no graph; add `graph: {{}}`")
    if not drafts:
        export.write(version / declared.graph.file, _CODE)
    if given.tokenizer is not None and declared.graph.text is not None:
        shutil.copyfile(given.tokenizer, version / declared.graph.text.tokenizer)
    if not (version / "runtime.py").exists() or (version / "runtime.json").exists():
        for name in _CODE + (_TEXT_CODE if declared.graph.text else ()):
            shutil.copyfile(_SERVED / name, version / name)
        document = json.dumps(_runtime(declared), indent=1) + "\n"
        (version / "runtime.json").write_text(document, encoding="utf-8")


def _draft(at: Path, file: Path, export: exported.Export, given: draft.DraftDetails) -> None:
    """Raises UnknownExtents after it has drafted what is known."""
    session = Session(file)
    unknown: extents.UnknownExtents | None = None
    try:
        sizes = extents.tried(export.signature, session.run, export.hints())
    except extents.UnknownExtents as exc:
        unknown, sizes = exc, extents.unknown(export.signature)
    facts = draft.GraphFacts(
        sizes, graph.precision(export.model), export.has_halves(), export.classes
    )
    text = draft.drafted(export.signature, given, versions.sha256(export.file), facts)
    at.write_text(text, encoding="utf-8")
    if unknown is not None:
        raise unknown


def _runtime(declared: Declaration) -> dict[str, Any]:
    """What the copied runtime reads."""
    assert declared.graph is not None
    text = declared.graph.text
    return {
        "graph": declared.graph.file,
        "outputs": list(declared.outputs),
        "threads": 1,
        "text": text
        and {
            "input": text.input,
            "tokenizer": text.tokenizer,
            "most_pieces": declared.axes[text.axis].max,
        },
    }


def _with_batching(made: Path, declared: Declaration) -> tuple[Declaration, RowVerdict | None]:
    """Dynamic batching is switched off in model.yaml where rows influence each other or cannot be
    tried. Raises WrongModel where model.yaml has words of its own on batching."""
    failure = batching.failed(made, declared)
    if failure is None:
        return declared, None
    path, verdict = failure
    if "batching" in declared.model_fields_set:
        raise WrongModel(f"{path}: {batching.refusal(declared, verdict)}")
    with versions.declaration_file(made).open("a", encoding="utf-8") as file:
        file.write(
            f"# Tried when it was added: rows are {verdict}.\nbatching: {{dynamic: false}}\n"
        )
    return versions.declared(made), verdict


def _with_canary(made: Path, declared: Declaration) -> Declaration:
    """A first inference of the reference becomes the canary of a draft."""
    text = declared.graph.text if declared.graph else None
    inputs: dict[str, Any] = {}
    feed: dict[str, Any] = {}
    for name, tensor in declared.inputs.items():
        dims = [_canary_size(d, declared) for d in tensor.dims]
        value = _CANARY_TEXT if tensor.text else "a" if tensor.datatype == "BYTES" else 1
        if dims == list(tensor.dims):
            inputs[name] = {"values": value}
        else:
            inputs[name] = {"dims": dims, "values": value}
        if text is None:
            shape = [1, *dims] if declared.batch is not None else dims
            filled = build_row(shape, value, declared, name)
            feed[name] = filled
    if text is not None:
        feed = dict(Cutter(made, declared)([_CANARY_TEXT]))
    answered = Session(versions.graph_file(made, declared), level=Level.NONE).run(feed)
    outputs = {
        name: {"first": [float(f"{float(v):.6g}") for v in answered[name].ravel()[:_CANARY_VALUES]]}
        for name, tensor in declared.outputs.items()
        if "FP" in tensor.datatype.value and np.isfinite(answered[name]).all()
    }
    document = {"canary": {"inputs": inputs, "outputs": outputs}}
    with versions.declaration_file(made).open("a", encoding="utf-8") as file:
        file.write(yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=100))
    return versions.declared(made)


def _with_canary_answer(made: Path, declared: Declaration) -> Declaration:
    """What the new version's own graph answers to the canary of the version before."""
    reference = Session(versions.graph_file(made, declared), level=Level.NONE)
    answered = verify.canary_answer(made, declared, reference)
    if declared.canary is None or answered is None:
        return declared
    first = {
        name: tuple(
            float(f"{float(v):.6g}") for v in answered[name].ravel()[: len(declared_answer.first)]
        )
        for name, declared_answer in declared.canary.outputs.items()
    }
    path = versions.declaration_file(made)
    text = succession.with_canary_outputs(path.read_text(encoding="utf-8"), first)
    path.write_text(text, encoding="utf-8")
    return versions.declared(made)


def _canary_size(dim: int | str, declared: Declaration) -> int:
    if isinstance(dim, str):
        axis = declared.axes[dim]
        return min(max(_CANARY_SIZE, axis.min), axis.max)
    return dim if dim > 0 else _CANARY_SIZE


def build_row(shape: list[int], value: object, declared: Declaration, name: str) -> Any:
    dtype = numpy_dtype(declared.inputs[name].datatype)
    return np.full(shape, value.encode() if isinstance(value, str) else value, dtype)


def _replace(made: Path, directory: Path, number: int) -> None:
    """The version last: until it is there, the one before serves, whatever else was replaced."""
    for path in sorted(made.rglob("*")):
        inside = path.relative_to(made)
        if path.is_file() and inside.parts[0] != str(number):
            (directory / inside).parent.mkdir(parents=True, exist_ok=True)
            versions.place(path, directory / inside)
    versions.place(made / str(number), directory / str(number))


def _why(verified: verify.VariantVerification) -> str:
    wrong = [
        *verified.wrong,
        *(f"{v.variant}: off by {v.off}" for v in verified.variants if not v.ok),
    ]
    return "; ".join(wrong)


def declared_settings(declared: Declaration, endpoint: str = "local") -> Mapping[str, Any]:
    """Its entry under `models` of the gateway's settings."""
    texts = [name for name, tensor in declared.inputs.items() if tensor.text]
    entry: dict[str, Any] = {"task": declared.task} if declared.task != "infer" else {}
    if texts:
        entry["text_inputs"] = texts
    if declared.max_batch > 1:
        entry["max_batch"] = declared.max_batch
    return {declared.name: {**entry, "served_by": [{"endpoint": endpoint}]}}
