"""What serves a model that came as an ONNX file: copied into its version, so that the version is
whole by itself wherever Triton's Python backend runs it. Nothing here imports the gateway."""
