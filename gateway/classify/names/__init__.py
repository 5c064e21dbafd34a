"""Names and addresses: what no pattern finds. The family here is `Names`: texts in, findings out.

`PERSON`, `USERNAME` (a handle, `@anna_k`) and `STREET_ADDRESS` findings. The score of a PERSON says
how much it identifies: 0.5 and more is a full name, or a name with a title; below that it is a lone
name ("Janet's ducks").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from gateway.core.types import Finding

FULL_NAME = 0.5
"""From this score on a PERSON finding identifies somebody by itself."""


PERSON = "PERSON"
USERNAME = "USERNAME"
LOOKED_FOR = frozenset({PERSON, USERNAME})
"""Names are looked for where findings of these types restrict. Addresses alone have patterns."""


def is_lone(finding: Finding) -> bool:
    """A name that identifies nobody by itself: it restricts some callers and not others."""
    return finding.type == PERSON and finding.score < FULL_NAME


Enough: TypeAlias = Callable[[str, Finding], bool]
"""Whether a finding in a text settles the verdict on the whole call. From any thread."""


class Names(Protocol):
    """Where names are looked for. `find` answers with one list of findings a text, offsets in it,
    or raises a `NoScan` (gateway.classify): then the call stays on the premises (C1)."""

    async def start(self) -> None:
        """Raises ScannerUnfit when a canary of a language is missed (C8)."""
        ...

    async def find(
        self,
        texts: Sequence[str],
        budget_s: float,
        lone: Sequence[bool] | None = None,
        enough: Enough | None = None,
    ) -> list[list[Finding]]:
        """`lone`: of each text, whether its lone names count; in the others there may be fewer of
        them. None: they do in all. `enough`: once a finding is, the rest of all texts may be left
        unread. None: all is read."""
        ...

    async def aclose(self) -> None: ...
