"""From programs of opwright to graphs of ONNX."""
