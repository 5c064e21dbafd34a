"""The tests. gRPC is told to be quiet here, before anything imports it."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
