"""scikit-learn estimators predict as in ONNX Runtime or in the onnx reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto
from onnx.helper import make_empty_tensor_value_info
from onnx.reference import ReferenceEvaluator
from small_models import make_model, node, tensor

import opwright_onnx

DOMAIN = "ai.onnx.ml"
FEATURES = 4
ROWS = np.random.default_rng(0).standard_normal((9, FEATURES)).astype(np.float32)


def build(
    op_type: str, outputs: int = 1, dtype: int = TensorProto.FLOAT, **attrs: Any
) -> ModelProto:
    names = [f"out{i}" for i in range(outputs)]
    nodes = [node(op_type, ["x"], names, domain=DOMAIN, **attrs)]
    results = [make_empty_tensor_value_info(name) for name in names]
    inputs = [tensor("x", ["rows", FEATURES], dtype)]
    return make_model(nodes, inputs, results, domains={DOMAIN: 3}, ir_version=10)


def check(model: ModelProto, rows: Any = ROWS, by_reference: bool = False) -> None:
    run = (
        ReferenceEvaluator(model)
        if by_reference
        else onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
    )
    loaded = opwright_onnx.load(model)
    for given in (rows, rows[:1], *([] if by_reference else [rows[:0]])):
        expected = run.run(None, {"x": given})
        for found, wanted in zip(loaded(given), expected, strict=True):
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def numbers(*shape: int, seed: int = 1) -> list[float]:
    return np.random.default_rng(seed).standard_normal(shape).ravel().tolist()


@pytest.mark.parametrize("count", [1, FEATURES])
def test_features_are_scaled(count: int) -> None:
    check(build("Scaler", offset=numbers(count), scale=numbers(count, seed=2)))


@pytest.mark.parametrize("norm", ["L1", "L2", "MAX"])
def test_rows_are_normalized_except_rows_of_zeros(norm: str) -> None:
    rows = np.abs(ROWS)
    rows[2] = 0
    check(build("Normalizer", norm=norm), rows)


@pytest.mark.parametrize("missing", [float("nan"), -1.0])
@pytest.mark.parametrize("count", [1, FEATURES])
def test_missing_values_are_imputed(missing: float, count: int) -> None:
    rows = ROWS.copy()
    rows[::2, 1] = missing
    attrs = {"imputed_value_floats": numbers(count), "replaced_value_float": missing}
    check(build("Imputer", **attrs), rows)


def test_missing_integers_are_imputed() -> None:
    rows = np.arange(8).reshape(2, FEATURES)
    attrs = {"imputed_value_int64s": [10, 11, 12, 13], "replaced_value_int64": 5}
    check(build("Imputer", dtype=TensorProto.INT64, **attrs), rows)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_regression_matches_onnx_runtime(transform: str) -> None:
    attrs = {"coefficients": numbers(3, FEATURES), "intercepts": numbers(3, seed=2)}
    check(build("LinearRegressor", targets=3, post_transform=transform, **attrs))


@pytest.mark.parametrize("labels", [[0, 1, 2], [7, 3, 5]])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_classification_matches_onnx_runtime(labels: list[int], transform: str) -> None:
    attrs = {"coefficients": numbers(3, FEATURES), "intercepts": numbers(3, seed=2)}
    attrs |= {"classlabels_ints": labels, "post_transform": transform}
    check(build("LinearClassifier", 2, **attrs))


@pytest.mark.parametrize("kernel", ["LINEAR", "RBF", "POLY", "SIGMOID"])
def test_support_vector_regression_matches_onnx_runtime(kernel: str) -> None:
    attrs = {"coefficients": numbers(5), "support_vectors": numbers(5, FEATURES, seed=2)}
    attrs |= {"kernel_type": kernel, "kernel_params": [0.3, 0.2, 3.0], "rho": [0.1]}
    check(build("SVMRegressor", n_supports=5, **attrs))


def grow(
    n_trees: int, depth: int, mode: str = "BRANCH_LEQ"
) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """Return the nodes of full trees as attributes, and the ids of their leaves."""
    rng = np.random.default_rng(depth)
    names = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids", "modes", "values")
    found: dict[str, list[Any]] = {f"nodes_{name}": [] for name in names}
    leaves = []
    for tree in range(n_trees):
        for place in range(2 ** (depth + 1) - 1):
            is_leaf = place >= 2**depth - 1
            leaves += [(tree, place)] * is_leaf
            below = (0, 0) if is_leaf else (2 * place + 1, 2 * place + 2)
            kind = "LEAF" if is_leaf else mode
            items = (tree, place, int(rng.integers(FEATURES)), *below, kind, float(rng.normal()))
            for values, item in zip(found.values(), items, strict=True):
                values.append(item)
    return found, leaves


def weigh(kind: str, leaves: list[tuple[int, int]], count: int) -> dict[str, Any]:
    """Return weights of `count` columns for each leaf, as attributes."""
    pairs = [(tree, leaf, column) for tree, leaf in leaves for column in range(count)]
    trees, places, columns = zip(*pairs, strict=True)
    names = (f"{kind}_treeids", f"{kind}_nodeids", f"{kind}_ids")
    found: dict[str, Any] = dict(zip(names, (trees, places, columns), strict=True))
    return found | {f"{kind}_weights": numbers(len(pairs))}


@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"])
@pytest.mark.parametrize("count", [1, 3])
def test_regression_with_tree_ensembles_matches_onnx_runtime(mode: str, count: int) -> None:
    nodes, leaves = grow(5, 3, mode)
    attrs = {**nodes, **weigh("target", leaves, count), "n_targets": count}
    check(build("TreeEnsembleRegressor", base_values=numbers(count, seed=3), **attrs))
    check(build("TreeEnsembleRegressor", aggregate_function="AVERAGE", **attrs))


def test_conditions_of_trees_can_differ_and_hold_for_missing_values() -> None:
    nodes, leaves = grow(5, 3)
    modes = ["BRANCH_LEQ", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
    places = [i for i, mode in enumerate(nodes["nodes_modes"]) if mode != "LEAF"]
    for i, place in enumerate(places):
        nodes["nodes_modes"][place] = modes[i % 4]
    tracks = [i % 3 % 2 for i in range(len(nodes["nodes_modes"]))]
    rows = np.where(np.random.default_rng(1).random(ROWS.shape) < 0.3, np.nan, ROWS)
    attrs = {**nodes, **weigh("target", leaves, 1), "nodes_missing_value_tracks_true": tracks}
    check(build("TreeEnsembleRegressor", n_targets=1, **attrs), rows.astype(np.float32))


def test_trees_can_have_a_single_leaf() -> None:
    nodes, leaves = grow(2, 0)
    check(build("TreeEnsembleRegressor", n_targets=1, **nodes, **weigh("target", leaves, 1)))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("labels", [[0, 1, 2], [4, 9]])
def test_classification_with_tree_ensembles_matches_onnx_runtime_or_the_reference(
    transform: str, labels: list[int]
) -> None:
    nodes, leaves = grow(4, 2)
    attrs = {**nodes, **weigh("class", leaves, len(labels)), "post_transform": transform}
    model = build("TreeEnsembleClassifier", 2, classlabels_int64s=labels, **attrs)
    # For two classes ONNX Runtime compares the second column with 0.
    check(model, by_reference=len(labels) == 2)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("is_positive", [True, False])
def test_binary_classification_with_tree_weights_for_one_class_matches_onnx_runtime(
    transform: str, is_positive: bool
) -> None:
    nodes, leaves = grow(3, 2)
    attrs = {**nodes, **weigh("class", leaves, 1), "post_transform": transform}
    if is_positive:
        attrs["class_weights"] = [abs(weight) / 3 for weight in attrs["class_weights"]]
    check(build("TreeEnsembleClassifier", 2, classlabels_int64s=[0, 1], **attrs))


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.INT64])
def test_numbers_become_columns_of_categories(dtype: int) -> None:
    model = build("OneHotEncoder", cats_int64s=[0, 2, 1], zeros=1, dtype=dtype)
    rows = np.arange(8).reshape(2, 4) % 4
    check(model, rows.astype(np.float32 if dtype == TensorProto.FLOAT else np.int64))


def test_features_are_concatenated() -> None:
    nodes = [node("FeatureVectorizer", ["x", "y"], ["out"], domain=DOMAIN, inputdimensions=[4, 2])]
    inputs = [tensor("x", ["rows", 4]), tensor("y", ["rows", 2])]
    out = [make_empty_tensor_value_info("out")]
    model = opwright_onnx.load(make_model(nodes, inputs, out, domains={DOMAIN: 1}))
    expected = np.concatenate([ROWS, ROWS[:, :2]], 1)
    np.testing.assert_array_equal(model(ROWS, ROWS[:, :2])[0], expected)


@pytest.mark.parametrize(
    ("op_type", "attrs", "text"),
    [
        ("ZipMap", {"classlabels_int64s": [0]}, r"ZipMap.*export with options=\{'zipmap': False\}"),
        ("LinearClassifier", {"coefficients": [1.0] * 4, "classlabels_strings": ["a"]}, "strings;"),
        ("LinearRegressor", {"post_transform": "PROBIT", "coefficients": [1.0] * 4}, "got PROBIT"),
    ],
)
def test_the_error_for_unsupported_operators_and_attributes_names_them(
    op_type: str, attrs: dict[str, Any], text: str
) -> None:
    with pytest.raises(opwright_onnx.UnsupportedError, match=text):
        opwright_onnx.load(build(op_type, **attrs))


def test_damaged_trees_are_refused() -> None:
    nodes, leaves = grow(2, 2)
    nodes["nodes_truenodeids"][0] = 99
    with pytest.raises(opwright_onnx.ModelError, match="TreeEnsembleRegressor"):
        opwright_onnx.load(
            build("TreeEnsembleRegressor", n_targets=1, **nodes, **weigh("target", leaves, 1))
        )
