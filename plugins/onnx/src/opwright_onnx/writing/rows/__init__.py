"""How operators of opwright are written with ONNX's operators, by subject."""
