"""How operators of ours are written with those of ONNX, by subject."""
