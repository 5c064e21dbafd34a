"""What serves calls, on the premises and in the cloud: how it is called and what state it is in.

`connectors` speaks to each kind of server. `registry` has all endpoints and answers what may be
sent where; `state` is that of one of them, `candidates` what holds of a model's until one of them
changes, `snapshot` the view of all that a decision reads.
`queueing` brings calls into the queues, `outcomes` is what their ends teach, `recovery` when a
server is back; `versions` makes these parts and hands over between versions of the settings.
`health` decides whether an endpoint may be trusted; `triton` is the server that the gateway starts
itself. It imports what stands below: `accounting`, `scheduling`, `classify`, `protocols`, `config`,
`core`. Start with `connectors/__init__.py`, then `versions/parts.py`.
"""
