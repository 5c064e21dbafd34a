"""The process: one gateway, put together from the settings, and put together anew when they change.

`gateway` opens the listeners and ends them, `generation` is all that one version of the settings
builds, `endpoint_set` its endpoints, `scanner_set` its scanners, `reload` goes from one version to
the next.
`imports` turns the settings of other gateways into Spillway's, `top` is `spillway top`.
It imports every room but `demo` and `cli`. Start with `gateway`.
"""
