"""Trainings over processes on emulated GPUs give what one process gives, recorded as one graph."""

from __future__ import annotations

import pytest

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
    device = "cuda" if parallel else "cpu"
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
        for _ in range(10):
            step(x=x_rows, y=y_rows)
    placement = network.placement()
    if parallel:
        assert placement.graph_refusal == "", placement
        kernels = {name.partition("/")[0] for name in placement.kernels}
        assert kernels == {"cuda"}, placement
    return [scope.find_var(p.name).numpy() for p, _ in pairs]


whole = train(False, X, Y, {})
part = slice(r * 16 // n, (r + 1) * 16 // n)
for size in (1, 2 << 20):
    result = train(True, X[part], Y[part], {"dist.bucket_bytes": size})
    for ours, wanted in zip(result, whole):
        np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)
    bits = hashlib.sha256(b"".join(p.tobytes() for p in result)).hexdigest()
    assert len(set(dist.gather(bits.encode()))) == 1, "the processes differ"

cut = [0, *(3 + 2 * k for k in range(n - 1)), 16]
part = slice(cut[r], cut[r + 1])
weighted = train(True, X[part], Y[part], {}, unequal_rows="weight")
for ours, wanted in zip(weighted, whole):
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)
print("good")
"""


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_training_gives_what_one_process_with_the_whole_batch_gives(run, ranks: int) -> None:
    done = run(TRAINING, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


def test_ids_are_exchanged_over_mpi(run) -> None:
    gpu = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = os.environ['OPWRIGHT_MPI_RANK']\n"
    done = run(gpu + TRAINING, 2, engine="mpi", variables={"OPWRIGHT_DIST_ENGINE": "nccl"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 2


MODEL = """
import numpy as np
import opwright_dist as dist
import opwright_nn as nn

ROWS = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
DATA = {"x": ROWS, "y": ROWS.sum(axis=1, keepdims=True)}


def build(parallel, device):
    model = nn.Model(data_parallel=parallel, device=device)
    hidden = model.dropout(model.tanh(model.fc_layer("x", 16)), 0.3)
    error = model.fc_layer(hidden, 1) - model.input("y")
    model.minimize(model.mean(error * error), nn.optimizer.Adam(0.01))
    return model


def values(model):
    return [model.scope.var(p.name).numpy() for p in model.parameters]


for choice, size in (("refuse", 12), ("weight", 10)):
    whole, model = build(None, "cpu"), build(nn.DataParallel(unequal_rows=choice), "cuda")
    wanted, history = [
        nn.train(each, DATA, epochs=2, batch_size=size, seed=2, progress=False)
        for each in (whole, model)
    ]
    np.testing.assert_allclose(history["loss"], wanted["loss"], rtol=1e-4)
    for own, all_rows in zip(values(model), values(whole)):
        np.testing.assert_allclose(own, all_rows, rtol=1e-4, atol=1e-5)
    every = dist.gather(b"".join(value.tobytes() for value in values(model)))
    assert len(set(every)) == 1, "the processes differ"
print("good")
"""


def test_a_model_with_dropout_is_trained_as_by_one_process(run) -> None:
    done = run(MODEL, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 2
