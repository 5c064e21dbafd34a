"""The life of one call: admitted, classified, decided on, sent, settled.

`pipeline` goes through these stages, `dispatcher` tries endpoints in the order that the decision
gives, `attempt` is one try at one endpoint. `admission` and `rate_limits` refuse at the entrance,
`hedging` and `retries` are second tries, `call_account` writes the records, `shadow` asks other
policies
what they would have done. It imports everything below it. Start with `pipeline.Pipeline.handle`.
"""
