"""One test case of every operator has the same results after it was written to ONNX."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import opwright as ow
from every_case import EVERY, is_one_in
from opwright_onnx.dtypes import array_dtype

sys.path.insert(0, str(Path(__file__).parents[1] / "std" / "operators"))
trips: Any = pytest.importorskip("round_trips", reason="onnxruntime is not installed")
from table import first_cases  # noqa: E402  # found by the line above

LIMITED = {"lrn": "four axes", "resize": "four axes", "one_hot": "some dtypes"}
"""Operators that ONNX Runtime supports only partly."""

CASES = {case.op: case for case in first_cases() if EVERY or is_one_in(3, case.op)}


def make(case: Any) -> tuple[ow.LoadedProgram, dict[str, Any]] | None:
    """Return a program of one operator and its feeds, or None if it has no results."""
    dtype = "float32" if "float32" in case.dtypes else case.dtypes[0]
    program, feeds, named = ow.Program(), {}, {}
    block = program.global_block()
    for slot, arrays in case.make_inputs(dtype).items():
        for i, array in enumerate(arrays):
            block.create_var(f"{slot}_{i}", array.shape, array_dtype(array), is_data=True)
            feeds[f"{slot}_{i}"] = array
        named[slot] = [f"{slot}_{i}" for i in range(len(arrays))]
    op = block.append_op(case.op, named, None, dict(case.attrs))
    slots = [s for s in op.definition.proto.outputs if not s.intermediate and not s.aliases]
    fetches = [name for slot in slots for name in op.outputs.get(slot.name, ())]
    if not fetches:
        return None
    loaded = ow.LoadedProgram(program, ow.Scope(), fetches, list(feeds))
    return loaded, {spec.name: feeds[spec.name] for spec in loaded.feeds}


@pytest.mark.parametrize("op_type", CASES)
def test_a_written_operator_has_the_same_results(op_type: str) -> None:
    made = make(CASES[op_type])
    if made is None:
        return
    program, fed = made
    _, again = trips.write(program, only_own=True)
    writer, model = trips.write(program)
    ours = [np.asarray(result) for result in program(fed)]  # drawn with the state that was written
    trips.assert_same(ours, trips.run_again(again, fed))
    near = SimpleNamespace(rtol=1e-3, atol=1e-6)
    if writer.own:
        trips.assert_close(near, ours, trips.run_again(model, fed))
        return
    try:
        theirs = trips.run_elsewhere(model, fed)
    except Exception:
        if op_type not in LIMITED:
            raise
    else:
        trips.assert_close(near, ours, theirs)
