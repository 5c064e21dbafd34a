"""The registries by kind: a directory, a web server, an object store, MLflow."""
