"""The Anthropic Messages API over HTTP, as another form of chats.

`requests` makes a chat of a call and `answers` and `events` a message of its answer, all as pure
functions; so that everything between knows chats alone. `front` is what a connection sees.
"""
