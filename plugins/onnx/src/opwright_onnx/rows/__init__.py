"""How operators of ONNX are written with ours, by area."""
