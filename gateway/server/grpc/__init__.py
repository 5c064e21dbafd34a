"""The Open Inference Protocol over gRPC, with health and reflection."""
