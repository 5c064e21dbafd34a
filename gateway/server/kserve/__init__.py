"""The Open Inference Protocol over HTTP (KServe v2)."""
