"""Fronts of other APIs than OpenAI's: each makes a chat of a call, and its own answer of a chat's.

A front has its fields in `requests`, its answers in `answers` and `events`, all pure, and the head
of its calls in `front`. What they share is in `head` (a call's life), `stream` (an answer that
comes in events), `blocks` (events of blocks), `answers` (what a chat's answer says), `fields` and
`failures`.
"""
