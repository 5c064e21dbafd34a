"""The tagger that ships with the gateway: its words, its features, its two models."""
