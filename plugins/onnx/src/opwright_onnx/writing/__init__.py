"""Translates opwright programs to ONNX graphs."""
