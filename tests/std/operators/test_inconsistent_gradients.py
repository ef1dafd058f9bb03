"""A gradient operator accepts only values that its forward operator can have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table import standard_types

import opwright as ow
from opwright.errors import DtypeError, ShapeError
from opwright.op import GradOp, OpDefinition, grad_name
from opwright_kit.testing.samples.draw import draw_sample
from opwright_kit.testing.samples.sample import Sample
from opwright_kit.testing.samples.samplers import find_sampler, load_samplers
from opwright_kit.testing.samples.wrong_inputs import find_wrong_metas


def graded_types() -> list[str]:
    """Return the standard operators whose gradient is a single derived operator.

    Shapes that depend on values are checked by the kernels; see test_sequence_lengths.
    """
    ops = ow.current_context().ops
    known = [ops.get(name) for name in standard_types()]
    return [
        forward.op_type
        for forward in known
        if isinstance(forward.gradient, GradOp) and not forward.proto.dynamic_output
    ]


def test_every_derived_gradient_is_checked() -> None:
    assert len(graded_types()) >= 39


def dispatch_dtype(forward: OpDefinition) -> str:
    """Return float32, or the first dtype of an operator that excludes it, such as dequantize."""
    dtypes = forward.proto.input_slots[forward.proto.dispatch_slot].dtypes
    return "float32" if not dtypes or "float32" in dtypes else next(iter(dtypes))


def fitting_metas(forward: OpDefinition, sample: Sample) -> dict[str, Any]:
    """Return consistent metas by slot of the gradient operator."""
    slots = [slot.name for slot in (*forward.proto.inputs, *forward.proto.outputs)]
    metas = dict(zip(slots, (*sample.input_metas(forward), *sample.infer(forward)), strict=True))
    return {**metas, **{grad_name(slot): given for slot, given in metas.items()}}


@pytest.mark.parametrize("op_type", graded_types())
def test_a_gradient_refuses_outputs_that_its_operator_cannot_have(op_type: str) -> None:
    ops = ow.current_context().ops
    forward, definition = ops.get(op_type), ops.get(grad_name(op_type))
    sampler = find_sampler(load_samplers(), forward)
    dtype = dispatch_dtype(forward)
    drawn = (draw_sample(forward, dtype, seed, sampler) for seed in range(4))
    n_refused = 0
    for sample in filter(None, drawn):
        fitting, attrs = fitting_metas(forward, sample), sample.attrs
        metas = tuple(fitting[slot] for slot in definition.input_index)
        counts = tuple(len(fitting[slot.removesuffix("_grad")]) for slot in definition.output_index)
        definition.infer(metas, attrs, counts)
        for what, wrong in find_wrong_metas(definition, metas):
            slot = what.partition(" ")[0]
            if slot in forward.input_index:
                continue  # it may belong to another operator with the same inputs
            with pytest.raises((ShapeError, DtypeError), match=f"^{op_type}_grad: {slot} must "):
                definition.infer(wrong, attrs, counts)
            n_refused += 1
    assert n_refused


# -- origins of programs ----------------------------------------------------------------------

X = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
POOLED = np.ones((1, 1, 2, 2), "float32")


def pool_grad_program(x: Any, index: Any, out_grad: Any) -> tuple[Any, str]:
    """Return a block with the gradient of max pooling for inputs of these shapes."""
    block = ow.Program().global_block()
    block.create_var("x", x, "float32", is_data=True)
    block.create_var("index", index, "int32", is_data=True)
    block.create_var("out_grad", out_grad, "float32", is_data=True)
    inputs = {"x": "x", "index": "index", "out_grad": "out_grad"}
    op = block.append_op("max_pool2d_grad", inputs, {"x_grad": ["x_grad"]}, {"kernel": [2, 2]})
    return block, op.output("x_grad")[0]


def test_inconsistent_shapes_are_refused_while_a_program_is_built() -> None:
    message = r"max_pool2d_grad: index must be int32\[1, 1, 2, 2\], as max_pool2d makes index, got"
    with pytest.raises(ShapeError, match=message):
        pool_grad_program([1, 1, 4, 4], [1, 1, 9, 9], [1, 1, 2, 2])


def test_unknown_sizes_are_checked_when_the_program_runs() -> None:
    block, name = pool_grad_program([-1, 1, 4, 4], [-1, 1, 2, 2], [-1, 1, 2, 2])
    step = ow.Network(block).compile(feed=["x", "index", "out_grad"], fetch=[name])
    index = np.full((1, 1, 2, 2), 5, "int32")
    assert step(x=X, index=index, out_grad=POOLED)[0].sum() == 4
    with pytest.raises(ShapeError, match=r"max_pool2d_grad: out_grad must be float32\[1, 1, 2, 2"):
        step(x=X, index=index, out_grad=np.ones((3, 1, 2, 2), "float32"))


WRONG = (-1, 16, -(2**31), 2**31 - 1)


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize("library", ["numpy", "onednn"])
def test_an_index_outside_of_the_image_is_refused(library: str, data_format: str) -> None:
    """A file can contain such an index; a child process tests it, as a bug may overwrite memory."""
    script = Path(__file__).parent / "pool_at_a_wrong_place.py"
    command = [sys.executable, script, library, data_format, *map(str, WRONG)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    said = [line for line in done.stdout.splitlines() if "max_pool2d_grad" in line]
    for line, wrong in zip(said, WRONG, strict=True):
        assert f"index must be in [0, 16), got {wrong}" in line
