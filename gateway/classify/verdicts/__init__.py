"""The stages of a verdict that `Classifier` puts together."""
