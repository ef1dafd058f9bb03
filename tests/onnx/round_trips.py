"""Loads the onnx cases, and writes them back for ONNX Runtime or in our own domains."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
import pytest
from node_cases import _normalize_tensor
from onnx import ModelProto, TensorProto, helper

import opwright as ow
import opwright_onnx
from opwright_onnx.backend import Prepared, as_bytes
from opwright_onnx.dtypes import array_dtype, dtype_name, element_type, numpy_dtype
from opwright_onnx.saving import USUAL_OPSET, make_tensor, write_model
from opwright_onnx.specializing import specialize

UNCARRIED: Final = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")
"""Dtypes whose arrays the Python interface of ONNX Runtime does not support."""

LACKING: Final = (
    r"_(bf16|bfloat16)",
    r"^test_(convinteger|qlinearconv)",
    r"^test_(max|min)_u?int16",
    r"^test_bitshift_right_int16",
    r"^test_dequantizelinear_u?int4",
    r"^test_top_k_uint64",
)
"""Patterns of cases with dtypes for which ONNX Runtime can lack kernels."""

OWN: Final = ("bit_cast", "resize")
"""Operators of opwright without a counterpart in opset 21 that some cases need."""

REFUSED: Final = ("test_reshape_allowzero_reordered",)
"""ONNX Runtime refuses sizes of 0 that a run computes without allowzero."""


def load_case(case: Any) -> tuple[ow.LoadedProgram, dict[str, Any], list[Any]]:
    """Return the program of a case, its feeds, and its results."""
    given = [_normalize_tensor(item) for item in case.data_sets[0][0]]
    prepared = Prepared(case.model, "cpu")
    values = dict(zip([entry.name for entry in prepared._inputs], given))
    program = prepared._program
    if program is None or any(value is None for value in values.values()):
        program, values, _ = specialize(case.model, values, "cpu")
    if program is None:
        pytest.skip("its results are strings, which are known when it is loaded")
    fed = {spec.name: np.asarray(as_bytes(values[spec.name])) for spec in program.feeds}
    return program, fed, [np.asarray(result) for result in program(fed)]


def write(program: ow.LoadedProgram, opset: int = USUAL_OPSET, **named: Any) -> Any:
    """Write a program; return the writer, and the complete model after a check by onnx."""
    writer, model = write_model(program, opset, **named)
    model.graph.initializer.extend(make_tensor(*pair) for pair in writer.arrays.items())
    onnx.checker.check_model(model, full_check=True)
    return writer, model


def run_again(model: ModelProto, fed: dict[str, Any]) -> list[Any]:
    """Return the opwright results for a model that opwright wrote."""
    program = opwright_onnx.load(model)
    kept = {spec.name for spec in program.feeds}
    results = program({name: value for name, value in fed.items() if name in kept})
    return [np.asarray(result) for result in results]


def run_elsewhere(model: ModelProto, fed: dict[str, Any]) -> list[Any]:
    """Return the results of ONNX Runtime; raise NotImplementedError if it lacks a dtype."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    outputs = [np.dtype(numpy_dtype(_dtype(entry))) for entry in model.graph.output]
    carried = _carry(model)
    try:
        session = onnxruntime.InferenceSession(
            carried.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = {entry.name for entry in session.get_inputs()}
        feeds = {k: _widen(v) for k, v in fed.items() if k in names}
        results = session.run(None, feeds)
    except Exception as reason:
        if "NOT_IMPLEMENTED" in str(reason):
            raise NotImplementedError(str(reason)) from reason
        raise
    return [np.asarray(r).astype(dtype) for r, dtype in zip(results, outputs, strict=True)]


def _dtype(entry: Any) -> str:
    return str(dtype_name(entry.type.tensor_type.elem_type))


def _widen(array: Any) -> Any:
    return array.astype(np.float32) if array_dtype(array) in UNCARRIED else array


def _carry(model: ModelProto) -> ModelProto:
    """Return a model that casts inputs and outputs of some dtypes from and to float32."""
    carried = ModelProto()
    carried.CopyFrom(model)
    graph = carried.graph
    before, after = [], []
    for entries, casts in ((graph.input, before), (graph.output, after)):
        for entry in entries:
            kind = entry.type.tensor_type
            if kind.elem_type not in map(element_type, UNCARRIED):
                continue
            inner, outer = f"{entry.name}/cast", entry.name
            for node in graph.node:
                for names in (node.input, node.output):
                    for i, name in enumerate(names):
                        names[i] = inner if name == outer else name
            pair = ([outer], [inner]) if casts is before else ([inner], [outer])
            to = kind.elem_type if casts is before else TensorProto.FLOAT
            casts.append(helper.make_node("Cast", *pair, to=to))
            kind.elem_type = TensorProto.FLOAT
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return carried


def assert_close(case: Any, ours: list[Any], theirs: list[Any]) -> None:
    """Compare the results of a case, with higher tolerances for 16-bit floats."""
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        is_narrow = array_dtype(mine) in ("float16", "bfloat16")
        wide = [a.astype(np.float64) if a.dtype.kind in "fV" else a for a in (mine, other)]
        size = float(np.max(np.abs(wide[0]), initial=0)) if mine.dtype.kind in "fV" else 0.0
        size = size if np.isfinite(size) else 0.0
        rtol, atol = max(case.rtol, 1e-3), max(case.atol, 1e-5, 1e-5 * size)
        if is_narrow:
            rtol, atol = max(rtol, 2e-2), max(atol, 2e-2)
        np.testing.assert_allclose(wide[1], wide[0], rtol, atol)


def assert_same(ours: list[Any], again: list[Any]) -> None:
    """Compare results bitwise."""
    for mine, other in zip(ours, again, strict=True):
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        assert mine.tobytes() == other.tobytes()
