"""Models can be loaded with unknown sizes, since rows read only the sizes that they need."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_empty_tensor_value_info
from small_models import make_model, node, tensor

import opwright_onnx


class Case(NamedTuple):
    """A node whose inputs have unknown sizes (None); in a run, these sizes are 3."""

    op_type: str
    shapes: list[tuple[int | None, ...]]
    attrs: Mapping[str, Any] = MappingProxyType({})
    known: Mapping[int, Any] = MappingProxyType({})
    """The inputs that are initializers, by position."""
    dtypes: tuple[int, ...] = ()
    """The dtypes of the first inputs; the other inputs are float32."""
    outputs: int = 1


INT64, FLOAT = TensorProto.INT64, TensorProto.FLOAT
PICTURES = (None, 8, 4, 6)
SCALES = np.array([1, 1, 2, 1.5], np.float32)
CASES = {
    "DepthToSpace": Case("DepthToSpace", [PICTURES], {"blocksize": 2}),
    "DepthToSpace-CRD": Case("DepthToSpace", [PICTURES], {"blocksize": 2, "mode": "CRD"}),
    "DepthToSpace-height": Case("DepthToSpace", [(1, 8, None, 6)], {"blocksize": 2}),
    "SpaceToDepth": Case("SpaceToDepth", [PICTURES], {"blocksize": 2}),
    "SpaceToDepth-height": Case("SpaceToDepth", [(1, 8, None, 6)], {"blocksize": 3}),
    "ScatterND": Case(
        "ScatterND", [(3, None), (None, 1), (None, None)], dtypes=(FLOAT, INT64, FLOAT)
    ),
    "Gather-last": Case("Gather", [(2, None)], {"axis": 1}, {1: np.array(-1)}),
    "GatherND": Case("GatherND", [(3, 3), (None, 2)], dtypes=(FLOAT, INT64)),
    "CenterCropPad": Case("CenterCropPad", [PICTURES], {"axes": [2, 3]}, {1: np.array([3, 8])}),
    "MaxPool": Case("MaxPool", [PICTURES], {"kernel_shape": [2, 2], "strides": [2, 2]}, outputs=2),
    "MaxPool-lengths": Case(
        "MaxPool", [(None, 2, None, None)], {"kernel_shape": [2, 2]}, outputs=2
    ),
    "MaxPool-columns": Case(
        "MaxPool", [(None, 2, None, 4)], {"kernel_shape": [2, 2], "storage_order": 1}, outputs=2
    ),
    "MaxPool-same": Case(
        "MaxPool",
        [PICTURES],
        {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    ),
    "MaxUnpool": Case(
        "MaxUnpool",
        [(None, 1, 2, 2), (None, 1, 2, 2)],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        dtypes=(FLOAT, INT64),
    ),
    "Col2Im": Case("Col2Im", [(None, 8, 6)], {}, {1: np.array([3, 4]), 2: np.array([2, 2])}),
    "DFT": Case("DFT", [(None, 6, 1)], {"onesided": 1}, {1: None, 2: np.array(1)}),
    "STFT": Case("STFT", [(None, 16, 1)], {}, {1: np.array(4), 2: np.ones(8, np.float32)}),
    "EyeLike": Case("EyeLike", [(None, 4)]),
    "EyeLike-square": Case("EyeLike", [(None, None)], {"k": 1}),
    "Pad-wrap": Case("Pad", [(2, None)], {"mode": "wrap"}, {1: np.array([0, 1, 0, 2])}),
    "NonMaxSuppression": Case(
        "NonMaxSuppression", [(1, None, 4), (1, 1, None)], known={2: np.array(9)}
    ),
    "Resize-batch": Case("Resize", [PICTURES], {"mode": "linear"}, {1: None, 2: SCALES}),
    "Resize-nearest": Case("Resize", [(None, 2, None, None)], {}, {1: None, 2: SCALES}),
    "Resize-half": Case(
        "Resize",
        [(1, 2, None, 4)],
        {"mode": "cubic"},
        {1: None, 2: np.array([1, 1, 0.5, 1], np.float32)},
    ),
    "Resize-corners": Case(
        "Resize",
        [(1, 2, None, 4)],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        {1: None, 2: np.array([1, 1, 2, 2], np.float32)},
    ),
    "Resize-sizes": Case(
        "Resize",
        [PICTURES],
        {"axes": [2, 3], "coordinate_transformation_mode": "tf_crop_and_resize"},
        {1: np.array([0, 0, 1, 1], np.float32), 2: None, 3: np.array([5, 7])},
    ),
}


def build(case: Case, shapes: list[tuple[int | None, ...]]) -> Any:
    count = len(shapes)
    names = [f"x{i}" for i in range(count)]
    inputs = [tensor(*item) for item in zip(names, shapes, (*case.dtypes, *[FLOAT] * count))]
    weights = {}
    for place, value in case.known.items():
        names.insert(place, "" if value is None else f"known{place}")
        if value is not None:
            weights[f"known{place}"] = value
    results = [f"out{i}" for i in range(case.outputs)]
    nodes = [node(case.op_type, names, results, **case.attrs)]
    return make_model(nodes, inputs, map(make_empty_tensor_value_info, results), weights)


@pytest.mark.parametrize("name", CASES)
def test_results_with_unknown_sizes_match_results_with_known_sizes(name: str) -> None:
    case = CASES[name]
    known = [tuple(3 if dim is None else dim for dim in shape) for shape in case.shapes]
    rng = np.random.default_rng(0)
    arrays = {f"x{i}": rng.integers(0, 3, shape) for i, shape in enumerate(known)}
    if name in ("ScatterND", "MaxUnpool"):
        arrays["x1"] = rng.permuted(np.arange(arrays["x1"].size).reshape(known[1]))
    found, expected = (
        model({feed.name: arrays[feed.name].astype(feed.dtype) for feed in model.feeds})
        for model in (opwright_onnx.load(build(case, shapes)) for shapes in (case.shapes, known))
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
