"""The audit: what was decided of every call, in a chain that shows whether anything was changed.

`chain` and `merkle` are pure: a line's hash covers the line before it, and a tree over all lines
has one root for each size. `note` signs that root. `journal` keeps both on one disk, `writer` makes
what waits durable together. `verify`, `prove` and `reports` read, and need no gateway.
"""

from __future__ import annotations


class AuditError(Exception):
    """The audit cannot be read or continued; the message says why and what to do."""
