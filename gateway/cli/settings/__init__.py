"""Commands about settings: whether they are right, their schema, and those of other gateways."""
