"""Load on the models of models/ (loadtests/README.md)."""
