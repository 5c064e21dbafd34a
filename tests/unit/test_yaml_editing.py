"""One entry of a file changes; every other character stays, or nothing is changed."""

from __future__ import annotations

import textwrap
import threading
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import ConfigError
from gateway.config.yaml_editing import rewrite, with_entry, with_key

ENTRY = {"max_batch": 32, "served_by": [{"endpoint": "local"}]}
BLOCK = "  new:\n    max_batch: 32\n    served_by:\n    - {endpoint: local}\n"
FLOW = "new: {max_batch: 32, served_by: [{endpoint: local}]}"
ADDED = {
    "no section": ("a: 1 # c\n", f"a: 1 # c\nmodels:\n{BLOCK}"),
    "no section, no last newline": ("a: 1", f"a: 1\nmodels:\n{BLOCK}"),
    "an empty section": ("models: {}  # none\nz: 1\n", f"models:  # none\n{BLOCK}z: 1\n"),
    "a section of nothing": ("models: # none\nz: 1\n", f"models: # none\n{BLOCK}z: 1\n"),
    "a block": (
        "models:\n  a:\n    x: [1] # one\n    # of a\n\n# z\nz: 1\n",
        f"models:\n  a:\n    x: [1] # one\n    # of a\n{BLOCK}\n# z\nz: 1\n",
    ),
    "a text of several lines": (
        "models:\n  a:\n    x: |\n      b\n\nz: 1\n",
        f"models:\n  a:\n    x: |\n      b\n{BLOCK}\nz: 1\n",
    ),
    "a flow": ("models: {a: {x: 1}} # c\n", f"models: {{a: {{x: 1}}, {FLOW}}} # c\n"),
    "a flow of lines": (
        "models: {\n  a: {x: 1},  # one\n}\n",
        f"models: {{\n  a: {{x: 1}}, {FLOW},  # one\n}}\n",
    ),
    "another indent": (
        "models:\n    a: {x: 1}\nz: 1\n",
        "models:\n    a: {x: 1}\n" + textwrap.indent(BLOCK, "  ") + "z: 1\n",
    ),
    "lines that end in CR LF": (
        "models:\r\n  a: {x: 1}\r\n# c\r\n",
        "models:\r\n  a: {x: 1}\r\n" + BLOCK.replace("\n", "\r\n") + "# c\r\n",
    ),
}


@pytest.mark.parametrize("how", ADDED)
def test_an_entry_is_added_and_the_rest_stays(how: str) -> None:
    text, wanted = ADDED[how]
    assert with_entry(text, "models", "new", ENTRY) == wanted


REPLACED = {
    "a block": (
        "models:\n  new:\n    x: 1   # one\n\n  # what follows\n  b: {x: 2}\n",
        "models:\n" + BLOCK.replace("new:", "new:   # one") + "\n  # what follows\n  b: {x: 2}\n",
    ),
    "a flow": (
        "models: {a: {x: 1}, new: {x: 2}, b: 3} # c\n",
        f"models: {{a: {{x: 1}}, {FLOW}, b: 3}} # c\n",
    ),
}


@pytest.mark.parametrize("how", REPLACED)
def test_an_entry_takes_the_place_of_one_of_its_name(how: str) -> None:
    text, wanted = REPLACED[how]
    assert with_entry(text, "models", "new", ENTRY) == wanted


REFUSED = {
    "an alias": "d: &d {a: 1}\nmodels: *d\n",
    "an alias elsewhere": "models: &m\n  a: {x: 1}\nother: *m\n",
    "a list": "models: [a]\n",
    "a flow as a whole": "{models: {}}\n",
    "an end of the document": "a: 1\n...\n",
    "two documents": "a: 1\n---\nb: 1\n",
    "no YAML": "a: [\n",
    "nothing": "# only a comment\n",
    "a key twice": "models: {a: {x: 1}}\nmodels: {b: {x: 1}}\n",
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_cannot_be_changed_alone_is_refused(how: str) -> None:
    with pytest.raises(ConfigError, match="cannot be changed by a command"):
        with_entry(REFUSED[how], "models", "new", ENTRY)


@given(
    before=st.sampled_from(["", "# c\n", "a: 1\n", "a:\n- 1\n"]),
    section=st.sampled_from([text for text, _ in ADDED.values()]),
    after=st.sampled_from(["", "\n", "# end\n", "zz:\n  - b\n"]),
)
def test_an_addition_takes_no_character_away(before: str, section: str, after: str) -> None:
    text = before + section + ("" if section.endswith("\n") else "\n") + after
    try:
        changed = with_entry(text, "models", "new", ENTRY)
    except ConfigError:
        return
    assert yaml.safe_load(changed)["models"]["new"] == ENTRY
    characters = iter(changed)
    assert all(one in characters for one in text.replace("models: {}", "models:"))


def test_a_key_is_replaced_with_its_lines() -> None:
    text = "name: a\ncanary:\n  inputs: {x: {values: 1}}\n  outputs: {y: {first: [1.0]}}\n# end\n"
    changed = with_key(text, "canary", {"inputs": {"x": {"values": 2}}})
    assert changed == "name: a\ncanary:\n  inputs:\n    x: {values: 2}\n# end\n"
    assert with_key("name: a\n", "b", 1) == "name: a\nb: 1\n"


def test_a_file_is_replaced_whole_with_its_mode_behind_its_link(tmp_path: Path) -> None:
    real = tmp_path / "real.yaml"
    real.write_text("a: 1\n")
    real.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(real)
    rewrite(link, lambda text: text + "b: 2\n")
    assert (link.is_symlink(), real.read_text()) == (True, "a: 1\nb: 2\n")
    assert real.stat().st_mode & 0o777 == 0o640
    inode = real.stat().st_ino
    rewrite(link, lambda text: text)
    assert real.stat().st_ino == inode


def test_a_change_that_fails_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")

    def refuse(text: str) -> str:
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        rewrite(path, refuse)
    assert [p.name for p in tmp_path.iterdir()] == ["a.yaml"]
    assert path.read_text() == "a: 1\n"


def test_changes_at_once_all_count(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")

    def add(number: int) -> None:
        rewrite(path, lambda text: with_entry(text, "models", f"m{number}", ENTRY))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(yaml.safe_load(path.read_text())["models"]) == 8
