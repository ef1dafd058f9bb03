"""Call operators on arrays, read their help, and choose their kernels."""

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
