"""Translates the graphs of ONNX models to Programs, node by node."""
