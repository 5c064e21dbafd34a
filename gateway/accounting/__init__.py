"""What is kept of a call: a content-free record, metrics, and the certainty that it ends once."""
