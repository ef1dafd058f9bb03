"""Several processes together draw the same random numbers as one process with the whole batch.

The numbers are bitwise identical.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.grid(6)

HEAD = """
import numpy as np
import opwright as ow
import opwright_dist as dist
from opwright_nn import layers, optimizer

r, n = dist.rank(), dist.size()
X = np.random.default_rng(0).normal(size=(16, 6)).astype(np.float32)
ops = ow.ops


def network(x):
    hidden = layers.dropout(layers.fc(x, 32, activation="tanh"), 0.4)
    turned = layers.dropout(ops.transpose(hidden, axes=[1, 0]), 0.3)
    split = layers.dropout(ops.reshape(ops.transpose(turned, axes=[1, 0]), shape=[-1, 8]), 0.2)
    drawn = ops.bernoulli(ops.sigmoid(split))
    joined = ops.reshape(split * drawn, shape=[-1, 32])
    return [hidden, turned, split, drawn], layers.mean(ops.square(layers.fc(joined, 1)))


def train(x_rows, parallel=None, passes=None, steps=5, seed=3):
    main, startup = ow.Program(seed=seed), ow.Program(seed=3)
    with ow.program_guard(main, startup):
        x = layers.data("x", [None, 6])
        drawn, loss = network(x)
        pairs = ow.append_backward([loss])
        if parallel is not None:
            pairs = dist.data_parallel(pairs, **parallel)
        optimizer.SGD(0.1).apply_gradients(pairs)
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
    net = ow.Network(main.global_block())
    step = net.compile(feed=[x], fetch=drawn, scope=scope, passes=passes)
    values = [step(x=x_rows) for _ in range(steps)]
    return values, [scope.find_var(p.name).numpy() for p, _ in pairs]


def check(part, parallel):
    values, parameters = train(X[part], parallel)
    wanted, expected = train(X)

    def rows(array, axis, each):
        return np.take(array, range(part.start * each, part.stop * each), axis)

    for step, (got, whole) in enumerate(zip(values, wanted)):
        for (axis, each), own, all_rows in zip([(0, 1), (1, 1), (0, 4), (0, 4)], got, whole):
            # Dropped elements are 0 in both; in the first step, the kept elements are also equal.
            np.testing.assert_array_equal(own == 0, rows(all_rows, axis, each) == 0)
    for own, whole in zip(parameters, expected):
        np.testing.assert_allclose(own, whole, rtol=1e-5, atol=1e-6)
"""


@pytest.mark.parametrize("ranks", [2, 1, 4])
def test_dropout_with_several_processes_matches_one_process(run, ranks: int) -> None:
    script = """
check(slice(r * 16 // n, (r + 1) * 16 // n), {})
cut = [0, *(3 + 2 * k for k in range(n - 1)), 16]
check(slice(cut[r], cut[r + 1]), {"unequal_rows": "weight"})
print("good")
"""
    done = run(HEAD + script, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


def test_without_the_pass_each_process_draws_the_numbers_of_a_single_process(run) -> None:
    script = """
part = slice(8 * r, 8 * r + 8)
(together,), _ = train(X[part], {}, ["-dist_random"], steps=1)
(alone,), _ = train(X[part], steps=1)
np.testing.assert_array_equal(together[0], alone[0])
print("good")
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("good") == 2, done.stdout + done.stderr


def test_random_numbers_that_do_not_depend_on_the_batch_are_equal_on_all_ranks(run) -> None:
    script = """
main, startup = ow.Program(seed=3), ow.Program(seed=3)
with ow.program_guard(main, startup):
    x = layers.data("x", [None, 6])
    weight = layers.dropout(ow.ops.uniform(shape=[6, 5]), 0.5)
    loss = layers.mean(ops.square(layers.fc(ops.matmul(x, weight), 1)))
    dist.data_parallel(ow.append_backward([loss]))
scope = ow.Scope()
ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
step = ow.Network(main.global_block()).compile(feed=[x], fetch=[weight], scope=scope)
drawn = dist.gather(step(x=X[8 * r : 8 * r + 8])[0].tobytes())
assert drawn[0] == drawn[1]
print("good")
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("good") == 2, done.stdout + done.stderr


def test_dropout_within_a_branch_is_refused(run) -> None:
    script = """
main = ow.Program(seed=3)
with ow.program_guard(main, ow.Program(seed=3)):
    x, flag = layers.data("x", [None, 6]), layers.data("flag", [1], "bool")
    w = main.global_block().create_parameter("w_param", [6, 6])
    h = ops.matmul(x, w)
    out = layers.cond(flag, lambda: layers.dropout(h, 0.5), lambda: h * 1.0)
    dist.data_parallel(ow.append_backward([layers.mean(out)]))
scope = ow.Scope()
scope.var("w_param").set(np.eye(6, dtype=np.float32))
for passes in (None, ["-dist_random"]):
    step = ow.Network(main.global_block()).compile(
        feed=["x", "flag"], fetch=[out], scope=scope, passes=passes
    )
    try:
        step(x=X[:4], flag=np.array([True]))
        print("runs")
    except ow.errors.ProgramError as error:
        print(error)
"""
    done = run(HEAD + script, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("must be drawn outside loops and branches") == 2
    assert done.stdout.count("passes=['-dist_random']") == 2
    assert done.stdout.count("runs") == 2


def test_processes_with_different_seeds_are_refused(run) -> None:
    script = """
try:
    train(X[8 * r : 8 * r + 8], {}, seed=3 + r)
except ow.errors.OpwrightError as error:
    print(error)
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("the seed 3 on rank 0") == 2, done.stdout + done.stderr
    assert done.stdout.count("the seed 4 on rank 1") == 2
