"""How operators of ours are written with ONNX's operators, by subject."""
