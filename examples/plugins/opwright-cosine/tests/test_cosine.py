"""Compares both kernels with the formula in float64, and runs opwright's conformance checks."""

import numpy as np

import opwright as ow
from opwright_kit.testing import check_package

A, B = np.random.default_rng(0).normal(size=(2, 5, 8))
SCALE = 2.0


def formula(a, b):
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return (SCALE * (a * b).sum(axis=1) / norms)[:, None]


def test_similarity_is_the_cosine_of_the_angle_times_the_scale():
    got = ow.ops.cosine.similarity(A, B, scale=SCALE)
    np.testing.assert_allclose(got, formula(A, B), rtol=1e-12)


def test_the_gradient_is_the_central_difference():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        a, b = (main.global_block().create_var(n, shape=[None, 8], dtype="float64") for n in "ab")
        out = ow.ops.cosine.similarity(a, b, scale=SCALE)
        [(_, a_grad)] = ow.append_backward(ow.ops.sum(out), parameters=[a])
    run = ow.Network(main.global_block()).compile(feed=["a", "b"], fetch=[a_grad])
    [got] = run(a=A, b=B)
    step = 1e-6
    for index in np.ndindex(A.shape):
        moved = np.zeros_like(A)
        moved[index] = step
        expected = (formula(A + moved, B) - formula(A - moved, B)).sum() / (2 * step)
        np.testing.assert_allclose(got[index], expected, rtol=1e-7, atol=1e-9)


def test_a_program_of_version_1_is_read():
    block = ow.Program().global_block()
    a, b = (block.create_var(name, shape=[5, 8], dtype="float64") for name in "ab")
    block.append_op("cosine.similarity", {"a": a, "b": b}, attrs={"scale": SCALE})
    message = block.program.to_proto()
    [op] = message.blocks[0].ops
    op.version = 1
    op.attrs["factor"].CopyFrom(op.attrs["scale"])
    del op.attrs["scale"]
    [read] = ow.Program.from_proto(message).global_block().ops
    assert read.attrs == {"scale": SCALE}


def test_the_package_conforms():
    card = check_package("opwright-cosine")
    assert card.ok, card.format_findings(card.findings)
