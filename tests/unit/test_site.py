"""The site that `make docs` builds: whole, searchable, and without a request to another host."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="requirements/docs.txt is not installed")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    pages = {p.with_name("index.html") if p.name == "README.html" else p for p in pages}
    assert {page for page in pages if not (site / page).is_file()} == set()
    assert not list(site.rglob("*.py"))


def test_the_site_loads_nothing_from_other_hosts(site: Path) -> None:
    loads = re.compile(
        r"<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//"
    )
    pages = list(site.rglob("*.html"))
    assert pages
    assert [page.name for page in pages if loads.search(page.read_text())] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text()), sheet


def test_the_search_knows_settings_metrics_and_codes(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {
        word: {doc["location"].partition("#")[0] for doc in index["docs"] if word in doc["text"]}
        for word in ("spill_stop_file", "spillway_onprem_up", "spill_deadline")
    }
    assert "reference/configuration.html" in found["spill_stop_file"]
    assert "reference/metrics.html" in found["spillway_onprem_up"]
    assert "reference/reasons.html" in found["spill_deadline"]


def test_links_out_of_the_docs_are_plain_text_in_the_site(site: Path) -> None:
    page = (site / "explanation" / "architecture.html").read_text()
    assert "policy.py" in page
    assert 'href="../../gateway' not in page
