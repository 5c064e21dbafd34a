"""Whether the rows of a batch influence each other, which is tried before calls share a batch."""
