"""Guards are taken out as their marks say."""

from __future__ import annotations

import ast

import pytest

from tests.marks import BadMark, Mark, marks, without


def taken_out(source: str) -> str:
    return without(source, marks(source))


@pytest.mark.parametrize(
    ("source", "rest"),
    [
        ("if a:  # guard: A1.x\n    b()", "if False:\n    b()"),
        ("while a:  # guard: A1.x\n    b()", "while False:\n    b()"),
        ("if a:  # guard: A1.x always\n    b()", "if True:\n    b()"),
        ("if a:\n    b()\nelif c:  # guard: A1.x\n    d()", "if a:\n    b()\nelif False:\n    d()"),
        ("b()  # guard: A1.x", "pass"),
        ("# guard: A1.x\nb(\n    1,\n)", "pass"),
        ("# guard: A1.x\n# Why it is so.\nb()", "pass"),
        ("a()\nb()  # guard: A1.x\nc()  # guard: A1.x", "a()\npass\npass"),
        ("x = a and b and c  # guard: A1.x minus 2", "x = a and c"),
        ("if a or (b and c):  # guard: A1.x minus 4\n    d()", "if a or b:\n    d()"),
        ("if a or (b and c):  # guard: A1.x minus 2\n    d()", "if a:\n    d()"),
        ("f(a, b=1)  # guard: A1.x without b=1", "f(a)"),
        ("x = [a, b]  # guard: A1.x without b", "x = [a]"),
        ("x = [a for a in b if a]  # guard: A1.x without a", "x = [a for a in b]"),
        ("x = f(a < b)  # guard: A1.x a < b -> True", "x = f(True)"),
        ("# guard: A1.x a <\n#   b -> True\nx = a < b", "x = True"),
        ("return a  # guard: A1.x -> return None", "return None"),
        ("b()  # guard: A1.x -> await c(); b()", "await c()\nb()"),
        ("with a() as b:  # guard: A1.x -> if True:\n    c()", "if True:\n    c()"),
        (
            "try:\n    a()\nexcept B:  # guard: A1.x -> except C:\n    d()",
            "try:\n    a()\nexcept C:\n    d()",
        ),
    ],
)  # fmt: skip
def test_a_guard_is_taken_out_as_its_mark_says(source: str, rest: str) -> None:
    assert ast.dump(ast.parse(taken_out(source))) == ast.dump(ast.parse(rest))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("# guard: A1.x", "marks no statement"),
        ("x = (\n    1,  # guard: A1.x\n)", "marks no statement"),
        ("a()  # guard: A1.x minus 1", "0 operands"),
        ("if a and b:  # guard: A1.x minus 3\n    c()", "2 operands"),
        ("f(a)  # guard: A1.x without b", "finds `b` 0 times"),
        ("f(a, a)  # guard: A1.x a -> b", "finds `a` 2 times"),
        ("a()  # guard: A1.x always", "no change that is known: always"),
    ],
)
def test_a_mark_that_does_not_fit_is_refused(source: str, words: str) -> None:
    with pytest.raises(BadMark, match=words):
        taken_out(source)


def test_marks_say_where_they_stand() -> None:
    assert marks("a()  # guard: A1.x\n# guard: B2.y-z minus 1\nx = a and b\n") == [
        Mark("A1.x", "", 1, alone=False),
        Mark("B2.y-z", "minus 1", 2, alone=True),
    ]
    assert marks("text = '# guard: A1.x'") == []
