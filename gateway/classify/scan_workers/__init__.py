"""The processes that scan, and what is sent to them (docs/decisions/004-pattern-scanning.md)."""
