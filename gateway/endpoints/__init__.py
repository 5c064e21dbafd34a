"""What serves calls, on the premises and in the cloud: how it is called and what state it is in.

`connectors` speaks to each kind of server; `fleet` keeps all endpoints and answers what may be sent
where; `state` is that of one of them, `health` decides whether it may be trusted; `triton` is
the server that the gateway starts itself. It imports what stands below: `accounting`, `scheduling`,
`classify`, `protocols`, `config`, `core`. Start with `connectors/__init__.py`, then `fleet`.
"""
