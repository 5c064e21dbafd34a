"""Marks in the gateway's code: which statement a guard is, and how it is taken out.

A mark is a comment at the end of a statement's first line, or above the statement:

    if size > bound:  # guard: A9.answer-bound

`A9.answer-bound` names the guard in tests/behaviours/README.md. Taken out, the condition of an
`if` or a `while` is false and any other statement is `pass`. What else is to happen stands behind
the name:

    always          the condition is true
    minus 2         the second operand of `and` or `or` is left out
    without b=1     this argument, or element of a list, is left out
    a < b -> True   this expression becomes that one
    -> return None  the statement, or the head of a compound one, becomes this one

Several statements may bear the same name: they are taken out together. A mark above its statement
may go on in comments that are indented by three spaces or more.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
_MARK = re.compile(r"#\s*guard:\s*(?P<name>[A-Z]\w*\.[a-z0-9-]+)\s*(?P<change>.*)$")
_GOES_ON = re.compile(r"#\s{3,}(?P<more>\S.*)$")
_TESTED = (ast.If, ast.While)
_HEADED = (
    ast.If, ast.While, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith, ast.ExceptHandler,
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Match, ast.Try,
)  # fmt: skip
_BODIES = frozenset({"body", "orelse", "finalbody", "handlers", "cases", "decorator_list"})


class BadMark(Exception):
    """A mark that stands nowhere, or whose change does not fit its statement."""


@dataclass(frozen=True, slots=True)
class Mark:
    name: str  # of the guard: ID.words
    change: str  # "": the statement goes
    line: int  # of the statement's first line, or the comment's where it stands alone
    alone: bool  # on a line of its own, above its statement


def marks(source: str) -> list[Mark]:
    """All marks of a file, in their order."""
    made: list[Mark] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        if match := _MARK.match(token.string):
            alone = not token.line[: token.start[1]].strip()
            made.append(Mark(match["name"], match["change"].strip(), line, alone))
        elif (
            made and (last := made[-1]).alone and last.line == line - 1
            and (more := _GOES_ON.match(token.string))
        ):  # fmt: skip
            made[-1] = replace(last, change=f"{last.change} {more['more']}".strip(), line=line)
    return made


@functools.cache
def marked_files() -> dict[str, dict[str, list[Mark]]]:
    """Marks by the guard's name and by the file, relative to gateway/."""
    made: dict[str, dict[str, list[Mark]]] = {}
    for path in sorted((ROOT / "gateway").rglob("*.py")):
        source = path.read_text()
        if "guard:" in source:
            for mark in marks(source):
                files = made.setdefault(mark.name, {})
                files.setdefault(path.relative_to(ROOT / "gateway").as_posix(), []).append(mark)
    return made


def files_with(name: str) -> tuple[str, ...]:
    return tuple(marked_files().get(name, ()))


def take_out(names: Iterable[str], root: Path) -> dict[Path, str]:
    """Takes these guards out of the copy at `root`; what its files were before. Raises BadMark."""
    by_file: dict[str, list[Mark]] = {}
    for name in names:
        files = marked_files().get(name)
        if not files:
            raise BadMark(f"nothing in gateway/ is marked {name}")
        for file, those in files.items():
            by_file.setdefault(file, []).extend(those)
    before = {root / "gateway" / file: (root / "gateway" / file).read_text() for file in by_file}
    for (path, source), those in zip(before.items(), by_file.values(), strict=True):
        path.write_text(without(source, those))
    return before


def without(source: str, taken_out: Iterable[Mark]) -> str:
    """The source of a file without these guards. Raises BadMark."""
    return ast.unparse(ast.fix_missing_locations(changed(ast.parse(source), taken_out)))


def changed(tree: ast.Module, taken_out: Iterable[Mark]) -> ast.Module:
    """The same tree without these guards. Raises BadMark."""
    targets = [(_statement(tree, mark), mark) for mark in taken_out]
    for statement, mark in targets:
        _change(tree, statement, mark)
    return tree


def _statement(tree: ast.Module, mark: Mark) -> ast.stmt | ast.ExceptHandler:
    nodes = (n for n in ast.walk(tree) if isinstance(n, (ast.stmt, ast.ExceptHandler)))
    if mark.alone:
        below = [node for node in nodes if node.lineno > mark.line]
        if below:
            return min(below, key=lambda node: node.lineno)
    else:
        for node in nodes:
            if node.lineno == mark.line:
                return node
    raise BadMark(f"line {mark.line}: {mark.name} marks no statement")


def _change(tree: ast.Module, statement: ast.stmt | ast.ExceptHandler, mark: Mark) -> None:
    change = mark.change
    if not change:
        if isinstance(statement, _TESTED):
            statement.test = ast.Constant(False)
        else:
            _put(tree, statement, ast.Pass())
    elif change == "always" and isinstance(statement, _TESTED):
        statement.test = ast.Constant(True)
    elif change.startswith("minus "):
        _leave_out(statement, int(change.removeprefix("minus ")) - 1, mark)
    elif change.startswith("without "):
        _omit(statement, change.removeprefix("without "), mark)
    elif change.startswith("-> "):
        _replace(tree, statement, change.removeprefix("-> "))
    elif " -> " in change:
        old, _, new = change.partition(" -> ")
        _exchange(statement, old, new, mark)
    else:
        raise BadMark(f"line {mark.line}: {mark.name} has no change that is known: {change}")


def _head(statement: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """What stands in the statement, without the statements in it: parent, field, index, node."""
    for field, value in ast.iter_fields(statement):
        if isinstance(statement, _HEADED) and field in _BODIES:
            continue
        for index, node in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(node, ast.AST):
                yield statement, field, index, node
                yield from _head(node)


def _leave_out(statement: ast.AST, index: int, mark: Mark) -> None:
    operands = [
        (parent, node)
        for parent, _, _, node in _head(statement)
        if isinstance(parent, ast.BoolOp) and isinstance(node, ast.expr)
    ]
    operands.sort(key=lambda pair: (pair[1].lineno, pair[1].col_offset))  # the outer before inner
    if not 0 <= index < len(operands):
        raise BadMark(f"line {mark.line}: {mark.name} has {len(operands)} operands")
    of, operand = operands[index]
    of.values = [value for value in of.values if value is not operand]


def _omit(statement: ast.AST, element: str, mark: Mark) -> None:
    call = ast.parse(f"f({element})", mode="eval").body
    assert isinstance(call, ast.Call)
    wanted = ast.dump((call.keywords or call.args)[0])
    places = [
        (parent, field, index)
        for parent, field, index, node in _head(statement)
        if index is not None and ast.dump(node) == wanted
    ]
    if len(places) != 1:
        raise BadMark(f"line {mark.line}: {mark.name} finds `{element}` {len(places)} times")
    parent, field, index = places[0]
    del getattr(parent, field)[index]


def _exchange(statement: ast.AST, old: str, new: str, mark: Mark) -> None:
    wanted = ast.dump(ast.parse(old, mode="eval").body)
    places = [p for p in _head(statement) if _loaded(p[3]) == wanted]
    if len(places) != 1:
        raise BadMark(f"line {mark.line}: {mark.name} finds `{old}` {len(places)} times")
    _set(*places[0][:3], ast.parse(new, mode="eval").body)


def _loaded(node: ast.AST) -> str:
    return ast.dump(node) if isinstance(node, ast.expr) else ""


def _set(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _replace(tree: ast.Module, statement: ast.stmt | ast.ExceptHandler, code: str) -> None:
    if isinstance(statement, ast.ExceptHandler):
        made = ast.parse(f"try: pass\n{code}\n pass").body[0]
        assert isinstance(made, ast.Try)
        statement.type, statement.name = made.handlers[0].type, made.handlers[0].name
    elif code.endswith(":"):  # the head of a compound one
        new = ast.parse(f"async def _():\n {code}\n  pass").body[0].body[0]  # type: ignore[attr-defined]
        new.body = statement.body  # type: ignore[attr-defined]
        if hasattr(new, "orelse"):
            new.orelse = getattr(statement, "orelse", [])
        _put(tree, statement, new)
    else:
        body = ast.parse(f"async def _():\n {code}").body[0].body  # type: ignore[attr-defined]
        _put(tree, statement, *body)


def _put(tree: ast.Module, old: ast.stmt | ast.ExceptHandler, *new: ast.stmt) -> None:
    for parent in ast.walk(tree):
        for field in _BODIES:
            body = getattr(parent, field, None)
            if isinstance(body, list) and any(each is old for each in body):
                at = next(index for index, each in enumerate(body) if each is old)
                body[at : at + 1] = new
                return
