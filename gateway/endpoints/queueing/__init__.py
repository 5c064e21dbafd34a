"""How calls enter the queues of `gateway.scheduling`, and what the queues read of the endpoints.

`entry` makes a call's entry in its model's queue; `conditions` reads the servers and the room in
the cloud for the queues; `declared` is what the settings say of how servers execute models.
"""
