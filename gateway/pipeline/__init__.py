"""The life of one call: admitted, classified, decided on, sent, settled.

`pipeline` goes through these stages, `dispatch` tries endpoints in the order that the decision
gives, `attempt` is one try at one endpoint. `admission` and `limits` refuse at the entrance,
`hedge` and `retries` are second tries, `account` writes the records, `shadows` asks other policies
what they would have done. It imports everything below it. Start with `pipeline.Pipeline.handle`.
"""
