"""Training scripts with sharded states for processes of any engine.

A line before each script sets ``DEVICE`` to "cpu" or "cuda".
"""

from __future__ import annotations

HEAD = """
import sys
from pathlib import Path
import numpy as np
import opwright as ow
import opwright_dist as dist
import opwright_nn as nn

r, n = dist.rank(), dist.size()
ROWS = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
DATA = {"x": ROWS, "y": ROWS.sum(axis=1, keepdims=True)}
o, L1, L2 = nn.optimizer, nn.regularizer.L1, nn.regularizer.L2


def build(shard, make, precision=None, unequal_rows="weight", group="world"):
    choice = nn.DataParallel(group, unequal_rows, shard)
    model = nn.Model(data_parallel=choice, mixed_precision=precision, device=DEVICE)
    hidden = model.dropout(model.fc_layer("x", 7, activation="tanh"), 0.3)
    model.minimize(model.mean(model.mse(model.fc_layer(hidden, 1), "y")), make())
    return model


def values(model):
    return [model.scope.var(p.name).numpy() for p in model.parameters]


def train(model, epochs=2, size=10, **options):
    nn.train(model, DATA, epochs, batch_size=size, seed=2, progress=False, **options)
    every = dist.gather(b"".join(array.tobytes() for array in values(model)))
    assert len(set(every)) == 1, "the processes differ"
    return values(model)


def same(ours, wanted, what):
    for one, other in zip(ours, wanted, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=what)


def close(ours, wanted, what):
    for one, other in zip(ours, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=what)


def types(model):
    return {op.type for op in model.program.global_block().ops}
"""

OPTIMIZERS = """
makers = {
    "sgd": lambda: o.SGD(nn.schedule.step(0.1, 3, 0.5)),
    "momentum": lambda: o.Momentum(0.05, nesterov=True, regularizer=L2(0.1)),
    "adam": lambda: o.Adam(0.01, regularizer=L1(0.01), clip=nn.clip.ClipByValue(0.1)),
    "adamw": lambda: o.AdamW(0.01),
    "adamax": lambda: o.Adamax(0.01),
    "nadam": lambda: o.NAdam(0.01),
    "radam": lambda: o.RAdam(0.01),
    "lion": lambda: o.Lion(0.001),
    "adagrad": lambda: o.Adagrad(0.01),
    "adadelta": lambda: o.Adadelta(),
    "rmsprop": lambda: o.RMSprop(0.01, centered=True, momentum=0.5),
    "proximal_gd": lambda: o.ProximalGD(0.01, l1=0.1),
    "proximal_adagrad": lambda: o.ProximalAdagrad(0.01),
    "ftrl": lambda: o.Ftrl(0.01),
}
assert makers.keys() == {name for name, kind in o.OPTIMIZERS.items() if kind.elementwise}
for name, make in makers.items():
    plain, divided = build(False, make), build(True, make)
    assert {"dist.reduce_shard", "dist.shard", "dist.unshard"} <= types(divided)
    same(train(divided, epochs=1), train(plain, epochs=1), name)
"""

OPTIONS = """
makers = {
    "accumulated": lambda: o.Accumulate(o.Adam(0.01), steps=2),
    "clipped": lambda: o.Adam(0.01, clip=nn.clip.ClipByGlobalNorm(0.5)),
    "clipped each": lambda: o.Accumulate(o.SGD(0.1, clip=nn.clip.ClipByNorm(0.1)), steps=2),
}
for name, make in makers.items():
    compare = close if "clipped" in name else same  # norms are sums of sums
    compare(train(build(True, make)), train(build(False, make)), name)
for dtype in ("bfloat16", "float16"):
    plain, divided = (
        build(shard, lambda: o.Adam(0.01), nn.mixed_precision(dtype))
        for shard in (False, True)
    )
    same(train(divided, epochs=4), train(plain, epochs=4), dtype)
for unequal_rows in ("weight", "refuse"):
    size = 10 if unequal_rows == "weight" else 4 * n
    plain, divided = (
        build(shard, lambda: o.Adam(0.01), None, unequal_rows) for shard in (False, True)
    )
    same(train(divided, size=size), train(plain, size=size), unequal_rows)
"""

SIZES = """
def program(shard, dtype, sizes, options):
    main, startup = ow.Program(seed=1), ow.Program(seed=1)
    with ow.program_guard(main, startup):
        x = nn.layers.data("x", [None, 1], dtype)
        parameters = [
            nn.create_parameter(size, dtype, attr=nn.initializer.Normal(0.0, 1.0))
            for size in sizes
        ]
        sums = [ow.ops.sum(p * p) for p in parameters]
        loss = nn.layers.mean(x * ow.ops.add_n(sums))
        pairs = ow.append_backward(loss)
        pairs = dist.data_parallel(pairs, shard_optimizer=shard)
        o.Momentum(0.1).apply_gradients(pairs)
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], device=DEVICE, scope=scope)()
    with ow.context_guard(ow.current_context().with_options(options)):
        network = ow.Network(main.global_block())
        passes = ["-dist_buckets"] if not options else None
        step = network.compile([x], [loss], device=DEVICE, scope=scope, passes=passes)
        for _ in range(3):
            step(x=np.full((2, 1), r + 0.5, dtype))
    if DEVICE == "cuda":
        assert network.placement().graph_refusal == "", network.placement()
    return [scope.find_var(p.name).numpy() for p in parameters]


sizes = [(), (1,), (3, 5), (16 * n,), (16 * n + 1,), (70, 30), (0, 3), (130_001,)]
for dtype in ("float32", "float64"):
    wanted = program(False, dtype, sizes, {"dist.bucket_bytes": 1000})
    for options in ({}, {"dist.bucket_bytes": 1}, {"dist.bucket_bytes": 1000},
                    {"dist.bucket_bytes": 2 << 20}):
        same(program(True, dtype, sizes, options), wanted, f"{dtype} {options}")
"""

LARGE = (
    SIZES[: SIZES.index("sizes =")]
    + """
# There are more tensors than shared-memory slots, so tensors wait for slots, and results wait for
# their owner.
sizes = [(1_500_000,), (7,), (2_000_003,), (300, 301), (1_000_000,)]
for options in ({}, {"dist.bucket_bytes": 1 << 20}):
    same(
        program(True, "float32", sizes, options), program(False, "float32", sizes, options), "large"
    )
"""
)
