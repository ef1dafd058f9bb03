"""Random operators that fill parts of a tensor: together, the parts equal one complete draw."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import OpwrightError, ShapeError
from opwright_kit.testing import Sample, run_kernel

SHAPES = (((12,), 0), ((12, 5), 0), ((24, 3), 0), ((3, 12, 7), 1), ((2, 24), 1), ((12, 1700), 0))
ATTRS = {"seed": -7, "stream": 3}
STEP = np.array([5], np.int64)
ENTRIES = [
    pytest.param(
        f"std.{name}_part",
        device,
        dtype,
        library,
        id=f"{name}-{device}-{library}-{dtype}",
        marks=[pytest.mark.cuda_kernels] if device == "cuda" else [],
    )
    for name in ("dropout", "bernoulli")
    for device, dtype, library in (
        ("cpu", "float32", "numpy"),
        ("cpu", "float64", "native"),
        ("cpu", "float32", "native"),
        ("cpu", "bfloat16", "native_widened"),
        ("cuda", "float32", "native"),
        ("cuda", "float16", "native"),
    )
]
Arrays = Mapping[str, Any]


def run(
    op_type: str, device: str, dtype: str, library: str, inputs: Arrays, attrs: Arrays
) -> dict[str, Any]:
    """Return the results of one kernel by slot."""
    context = ow.current_context()
    wanted = (device, dtype, library)
    entries = context.kernels.entries(op_type)
    entry = next(e for e in entries if (e.device, e.dtype, e.library) == wanted)
    filled = context.ops.get(op_type).proto.fill_attrs(dict(attrs))
    given = {slot: (array,) for slot, array in inputs.items()}
    done = run_kernel(entry, Sample(op_type, given, filled, {}))
    assert not done.broken_guards
    return {slot: arrays[0] for slot, arrays in done.outputs.items()}


def draw_whole(op_type: str, x: Any, attrs: Arrays) -> dict[str, Any]:
    plain = op_type.removeprefix("std.").removesuffix("_part")
    more = {"training": True} if plain == "dropout" else {}
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    kernel = ("cpu", wide.dtype.name, "numpy")
    return run(plain, *kernel, {"x": wide, "step": STEP}, {**attrs, **more})


@pytest.mark.parametrize(("op_type", "device", "dtype", "library"), ENTRIES)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_parts_contain_the_random_numbers_of_the_complete_draw(
    op_type: str, device: str, dtype: str, library: str, shape: tuple[int, ...], axis: int
) -> None:
    kind = ow.op.dtype_to_numpy(dtype)
    x = np.random.default_rng(0).uniform(size=shape).astype(kind)
    attrs = ATTRS | ({"probability": 0.5} if "dropout" in op_type else {})
    whole = draw_whole(op_type, x, attrs)
    each = shape[axis] // 12
    for cut in ([0, 6, 12], [0, 1, 4, 9, 12]):
        for first, last in itertools.pairwise(cut):
            rows = [slice(None)] * axis + [slice(first * each, last * each)]
            part = np.array([first, last - first, 12], np.int64)
            inputs = {"x": np.ascontiguousarray(x[tuple(rows)]), "step": STEP, "part": part}
            drawn = run(op_type, device, dtype, library, inputs, {**attrs, "axis": axis})
            for slot, array in drawn.items():
                wanted = whole[slot][tuple(rows)].astype(array.dtype)
                np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("library", ["numpy", "native"])
@pytest.mark.parametrize(
    "part", [[0, 0, 4], [-1, 4, 8], [5, 4, 8], [0, 3, 8], [0, 4, -8], [2**62, 4, 2**63 - 1]]
)
def test_an_invalid_part_is_refused(library: str, part: list[int]) -> None:
    x = np.ones((4, 3), np.float32)
    inputs = {"x": x, "step": STEP, "part": np.array(part, np.int64)}
    attrs = {"probability": 0.5, "axis": 0, **ATTRS}
    if part[0] == 2**62:  # a part far from the start, since indices wrap modulo 2^64
        run("std.dropout_part", "cpu", "float32", library, inputs, attrs)
        return
    with pytest.raises((OpwrightError, ValueError), match=r"part must be \[rows_before, own_rows"):
        run("std.dropout_part", "cpu", "float32", library, inputs, attrs)


def test_the_shapes_of_a_part_are_checked() -> None:
    definition = ow.current_context().ops.get("std.dropout_part")
    x, part = np.ones((4, 3), np.float32), np.zeros(3, np.int64)
    for inputs, axis, rule in (
        ({"x": x, "part": part[:2]}, 0, r"part must have the shape \[3\]"),
        ({"x": x, "part": part}, 2, "axis must be an axis of x"),
        ({"x": x, "part": part, "step": part}, 0, "step must have one element"),
    ):
        attrs = definition.proto.fill_attrs({"probability": 0.5, "axis": axis, **ATTRS})
        given = {slot: (array,) for slot, array in inputs.items()}
        with pytest.raises(ShapeError, match=rule):
            Sample(definition.op_type, given, attrs, {}).infer(definition)


def test_an_empty_part_does_not_draw_numbers() -> None:
    x = np.ones((0, 3), np.float32)
    inputs = {"x": x, "step": STEP, "part": np.array([3, 0, 8], np.int64)}
    for library in ("numpy", "native"):
        attrs = {"probability": 0.5, "axis": 0, **ATTRS}
        drawn = run("std.dropout_part", "cpu", "float32", library, inputs, attrs)
        assert drawn["mask"].shape == (0, 3)
