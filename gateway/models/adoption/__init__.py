"""From what an exporter wrote to a model of the repository."""
