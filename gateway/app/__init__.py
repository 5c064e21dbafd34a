"""The process: one gateway, put together from the settings, and put together anew when they change.

`gateway` is the life of the process. `process_parts` is what a process has once, `generation` all
that one version of the settings builds, `endpoint_set` its endpoints, `scanner_set` its scanners;
`reload` goes from one version to the next, and `generations` are those that calls are still under.
`listeners`, `console` and `reports` show the process to callers and operators.
`imports` turns the settings of other gateways into Spillway's, `top` is `spillway top`.
It imports every room but `demo` and `cli`. Start with `gateway`.
"""
