"""The life of one call: admitted, classified, decided on, sent, settled.

`pipeline` goes through these stages with a `call`, `decisions` decides on it, `dispatcher` tries
endpoints along its `route`, and `attempt` is one try at one endpoint, whose answer comes from its
`upstream` and goes on as one of the `replies`. `admission` and `rate_limits` refuse at the
entrance, `hedging` and `retries` are second tries, `call_account` writes the records to what the
`accounts` share, and `shadow` asks other policies what they would have done. It imports everything
below it. Start with `pipeline.Pipeline.handle`.
"""
