"""A KServe server: the Open Inference Protocol alone, over gRPC or HTTP."""
