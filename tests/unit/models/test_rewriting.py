"""A value of a model.yaml is replaced, and every other character stays."""

from __future__ import annotations

import pytest
import yaml

from gateway.models.declaration.rewriting import rewritten

TEXT = """\
# a model
name: m      # its name
targets:
  embedded: {backend: python}   # here
  python:
    backend: python
    precision: fp16   # on a card

  # what follows
  tensorrt: {backend: python}
batch: {min: 1, opt: 8, max: 32}
"""


@pytest.mark.parametrize(
    ("keys", "old", "new"),
    [
        (
            ("targets", "embedded"),
            "embedded: {backend: python}   # here",
            "embedded: {a: [1, 2]}   # here",
        ),
        (
            ("targets", "python"),
            "python:\n    backend: python\n    precision: fp16   # on",
            "python: {a: [1, 2]}   # on",
        ),
        (("batch",), "batch: {min: 1, opt: 8, max: 32}", "batch: {a: [1, 2]}"),
        (("name",), "name: m      # its", "name: {a: [1, 2]}      # its"),
    ],
)
def test_one_value_is_replaced(keys: tuple[str, ...], old: str, new: str) -> None:
    assert old in TEXT
    assert rewritten(TEXT, {keys: {"a": [1, 2]}}) == TEXT.replace(old, new)


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_section_that_is_not_there_is_added_at_the_end(end: str) -> None:
    text = rewritten(TEXT.rstrip("\n") + end, {("batching",): {"delay_us": 5}})
    assert text == TEXT + "batching: {delay_us: 5}\n"


def test_several_values_are_replaced_each_in_its_place() -> None:
    values = {("targets", "python"): {"backend": "x"}, ("batch",): {"max": 1}, ("more",): [1]}
    document = yaml.safe_load(rewritten(TEXT, values))
    assert document["targets"]["python"] == {"backend": "x"}
    assert (document["batch"], document["more"]) == ({"max": 1}, [1])
    assert document["targets"]["tensorrt"] == {"backend": "python"}
