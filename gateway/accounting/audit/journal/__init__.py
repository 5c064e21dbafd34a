"""The audit's files: one chain of records in segments, each beside its signed checkpoints.

`journal` appends and begins segments, `resume` reads a chain that is there already, `checkpoints`
signs, `retention` removes old segments. `spooled_file` has what the disk does not take in a
`spool`. `segments` says how all of it lies in the directory.
"""
