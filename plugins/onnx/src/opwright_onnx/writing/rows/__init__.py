"""Translations of opwright operators to ONNX operators, by area."""
