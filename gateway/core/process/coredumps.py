"""No core dumps: a dump of the gateway, of a scanner or of the embedded Triton would hold calls."""

from __future__ import annotations

import resource


def forbid() -> None:
    """For this process and all that it starts; nobody can allow them again.

    The limit is 1 and not 0: at 0 Linux still hands dumps to a program that `core_pattern` names
    (core(5)), at 1 to none, and no file can be so small.
    """
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    least = 1 if most == resource.RLIM_INFINITY else min(1, most)
    resource.setrlimit(resource.RLIMIT_CORE, (least, least))  # guard: T4.core-dumps
