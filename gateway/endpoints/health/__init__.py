"""How much an endpoint can be trusted: what takes a model there out, and what lets it back.

Pure state on injected clocks. `prober`, `canary_runner` and `statistics_poller` ask the endpoints;
`endpoints/state` holds the state.
"""
