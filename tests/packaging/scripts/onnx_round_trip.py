"""Write a program as an ONNX model, read it, and compare the results of both."""

import numpy as np

import opwright as ow
import opwright_onnx

with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
    scores = main.global_block().create_var("scores", shape=[-1, 3])
    classes = ow.ops.softmax(ow.ops.relu(scores))
opwright_onnx.save("classes.onnx", main, ow.Scope(), fetch=[classes])
x = np.array([[1.0, 2.0, 3.0]], "float32")
[read] = opwright_onnx.load("classes.onnx")(scores=x)
np.testing.assert_allclose(read, ow.ops.softmax(ow.ops.relu(x)), rtol=1e-6)
