"""One line of the ledger: what one attempt cost, and for whom. No content of any call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple


class Entry(NamedTuple):
    """A tuple: there is one for each attempt, and it costs a tenth of a frozen class. Its fields
    are the columns of the view `attempts`, in their order."""

    at_s: float  # seconds since 1970
    call: str  # the call's id, as in its decision record
    tenant: str
    model: str
    endpoint: str
    zone: str
    reason: str  # why the call was placed there
    result: str  # served, or why not
    restricted: int  # 1 or 0
    nano_usd: int
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    moved_bytes: int = 0
    gpu_ns: int = 0
    cloud_nano_usd: int | None = None  # of an on-prem answer, had it come from the cloud
    estimated: int = 0  # 1 or 0


COLUMNS: Final = {
    name: "DOUBLE PRECISION"
    if name == "at_s"
    else "TEXT"
    if name in ("call", "tenant", "model", "endpoint", "zone", "reason", "result")
    else "BIGINT"
    for name in Entry._fields
}
"""What an entry's fields are in a database."""

make_entry: Final[Callable[[tuple[Any, ...]], Entry]] = partial(tuple.__new__, Entry)
"""Of a value for each field: what `Entry` does, without a Python function in between."""
