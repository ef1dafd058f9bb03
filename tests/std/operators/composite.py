"""Defines composites for the tests, and builds and runs programs that contain them."""

from __future__ import annotations

import numpy as np

import opwright as ow
from opwright.op import OpMaker, same_shape_as

X = np.ones((4, 50), np.float32)


def composite(body, random=True, name="part", **how):
    """Return a composite whose output has the shape of x; `how` is passed to `OpMaker.build`."""
    maker = OpMaker(f"test.{name}").add_comment("Made for one test.").add_input("x", "any shape")
    maker.add_output("out", "as x").same_dtype_as("x")
    if random:
        maker.add_input("step", "int64 [1]").dtypes("int64").as_optional()
        maker.add_attr("seed", int, "0: the program's").default(0)
        maker.add_attr("stream", int, "which numbers")
    return maker.build(same_shape_as("x"), body=body, random=random, **how)


def program_of(*op_types, seed=7):
    """Return a program that applies an operator of each type to ``x``, and the output names."""
    program = ow.Program(seed)
    block = program.global_block()
    block.create_var("x", [4, 50], is_data=True)
    ops = [block.append_op(op_type, {"x": "x"}) for op_type in op_types]
    return program, [op.output("out")[0] for op in ops]


def runs(program, fetch, count=1):
    """Return the results of `count` consecutive runs on one new scope."""
    call = ow.Network(program.global_block()).compile(["x"], fetch, scope=ow.Scope())
    return [call(x=X) for _ in range(count)]


def differentiate(program, out):
    """Append the gradient of sum(out) with respect to x; return its name."""
    ((_, grad),) = ow.append_backward(program.global_block().var(out), ["x"])
    return grad.name
