"""What mkdocs.yml cannot say of the site.

Links that lead out of docs/ become plain text: in a checkout they open source files, which the site
does not carry. In the search, decisions come after the pages for readers.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\.?/[^)\s]*)\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    folder = posixpath.dirname(page.file.src_uri)
    if folder == "decisions":
        page.meta["search"] = {"boost": 0.3}

    def within_docs(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        return link[1] if target.startswith("..") else link[0]

    return _LINK.sub(within_docs, markdown)
