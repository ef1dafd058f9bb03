"""Writes the graphs of ONNX models into Programs, node by node."""
