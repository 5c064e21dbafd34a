"""Responses at endpoints that serve chats alone, whatever their dialect.

`connector` sends a call as the chat that `core.operations.dialects.responses` makes of it, through
the endpoint's own connector; `writer` makes a response of the chat that comes back.
"""
