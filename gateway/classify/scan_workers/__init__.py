"""The processes that scan, and what is sent to them (docs/decisions/006-scans-in-processes.md)."""
