"""The process: one gateway, put together from the settings, and put together anew when they change.

`app` opens the listeners and ends them, `core` is all that one version of the settings builds,
`site` its endpoints, `scanning` its scanners, `reloading` goes from one version to the next.
`imports` turns the settings of other gateways into Spillway's, `top` is `spillway top`.
It imports every room but `demo` and `cli`. Start with `app`.
"""
