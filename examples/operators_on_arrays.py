"""Call operators on arrays; they run immediately, check their arguments, and have descriptions."""

import numpy as np

import opwright as ow

a = np.random.default_rng(1).random((4, 5), dtype=np.float32)

out = ow.ops.softmax(a, axis=-1)
print("softmax:", type(out).__name__, out.dtype, out.shape, "rows sum to", out.sum(axis=-1))

try:
    ow.ops.softmax(a, axis=2)
except ValueError as error:
    print(error)

print(ow.ops.clip.__doc__)
print(ow.explain("softmax", device="cpu", dtype="float32"))
