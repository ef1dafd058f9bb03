"""Operators on arrays, with their help and the choice of their kernels."""

import numpy as np

import opwright as ow

a = np.random.rand(4, 5).astype("float32")
ow.ops.softmax(a, axis=-1)
try:
    ow.ops.softmax(a, axis=2)
except ValueError as error:
    print(error)
help(ow.ops.clip)
print(ow.explain("softmax", device="cpu", dtype="float32"))
