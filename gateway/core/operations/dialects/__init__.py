"""What of an operation other APIs than OpenAI's can say: for each a module, with its `needs`.

An endpoint of such a kind gets OpenAI's calls translated. A field or a value that its API has no
words for is a need that the kind does not offer, so that the decision sends the call elsewhere.
"""
