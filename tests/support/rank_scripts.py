"""A training script for processes of any engine.

A line before the script sets ``DEVICE`` to "cpu" or "cuda".
"""

from __future__ import annotations

TRAINING = """
import hashlib
import numpy as np
import opwright as ow
import opwright_dist as dist
from opwright_nn import layers, optimizer

r, n = dist.rank(), dist.size()
X = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def train(parallel, x_rows, y_rows, options, **choice):
    main, startup = ow.Program(seed=1), ow.Program(seed=1)
    device = DEVICE if parallel else "cpu"
    with ow.program_guard(main, startup):
        x, y = layers.data("x", [None, 8]), layers.data("y", [None, 1])
        error = layers.fc(layers.fc(x, 64, activation="tanh"), 1) - y
        loss = layers.mean(error * error)
        pairs = ow.append_backward([loss])
        if parallel:
            pairs = dist.data_parallel(pairs, **choice)
        optimizer.Adam(0.01).apply_gradients(pairs)
        if parallel:
            dist.share_startup(startup)
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], device=device, scope=scope)()
    if parallel:
        dist.broadcast_state(main, scope, device=device)
    context = ow.current_context().with_options(options)
    with ow.context_guard(context):
        network = ow.Network(main.global_block())
        step = network.compile(feed=[x, y], fetch=[loss], device=device, scope=scope)
        for _ in range(20):
            step(x=x_rows, y=y_rows)
    placement = network.placement()
    if device == "cuda":
        assert placement.graph_refusal == "", placement
        assert {name.partition("/")[0] for name in placement.kernels} == {"cuda"}, placement
    return [scope.find_var(p.name).numpy() for p, _ in pairs]


whole = train(False, X, Y, {})
part = slice(r * 16 // n, (r + 1) * 16 // n)
bits = set()
for size in (1, 1000, 2 << 20):
    result = train(True, X[part], Y[part], {"dist.bucket_bytes": size})
    bits.add(hashlib.sha256(b"".join(p.tobytes() for p in result)).hexdigest())
    for ours, wanted in zip(result, whole):
        np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)
if DEVICE == "cpu":
    assert len(bits) == 1, "the buckets decide the bits"
every = dist.gather("".join(sorted(bits)).encode())
assert len(set(every)) == 1, "the processes differ"

cut = [0, *(3 + 2 * k for k in range(n - 1)), 16]
part = slice(cut[r], cut[r + 1])
weighted = train(True, X[part], Y[part], {}, unequal_rows="weight")
for ours, wanted in zip(weighted, whole):
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)
print("good")
"""
