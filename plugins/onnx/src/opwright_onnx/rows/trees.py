"""Rows for decision tree ensembles; all trees descend one level at a time."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from opwright_onnx.errors import DeclinedError, ModelError
from opwright_onnx.rows.estimators import as_floats, label, read_labels, transform
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value

ROWS = Rows()

MOST_LEVELS: Final = 64

_BRANCHES: Final = {
    "BRANCH_LEQ": "less_equal",
    "BRANCH_LT": "less",
    "BRANCH_GTE": "greater_equal",
    "BRANCH_GT": "greater",
    "BRANCH_EQ": "equal",
    "BRANCH_NEQ": "not_equal",
}


class Trees(NamedTuple):
    """The nodes of all trees in one list; both children of a leaf are the leaf itself."""

    places: dict[tuple[int, int], int]  # node index by (tree ID, node ID)
    roots: Any  # int64 [trees]
    features: Any  # int64 [nodes]
    bounds: Any  # [nodes]
    children: tuple[Any, Any]  # int64 [nodes], if the condition is true and if it is false
    modes: list[str]  # the kinds of conditions
    kinds: Any  # int64 [nodes], the index of its kind in modes
    tracks: Any  # bool [nodes], whether the condition is also true for NaN
    n_levels: int


def _numbers(n: Node, name: str) -> Any:
    """Return an attribute that float64 models store as a tensor; None if it is absent."""
    doubles = n.attr(f"{name}_as_tensor")
    return n.attr(name) if doubles is None else doubles


def _read(n: Node) -> Trees:
    ids = list(zip(n.attr("nodes_treeids"), n.attr("nodes_nodeids"), strict=True))
    places = {pair: place for place, pair in enumerate(ids)}
    is_leaf = np.array([mode == "LEAF" for mode in n.attr("nodes_modes")])
    modes = sorted({mode for mode in n.attr("nodes_modes") if mode != "LEAF"})
    kinds = [0 if mode == "LEAF" else modes.index(mode) for mode in n.attr("nodes_modes")]
    tracks = n.attr("nodes_missing_value_tracks_true") or [0] * len(ids)
    own = np.arange(len(ids))
    children = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        trees = zip(ids, n.attr(name), is_leaf, strict=True)
        targets = [0 if leaf else places[tree, child] for (tree, _), child, leaf in trees]
        children.append(np.where(is_leaf, own, np.array(targets, np.int64)))
    roots = np.setdiff1d(own, np.concatenate([child[~is_leaf] for child in children]))
    return Trees(
        places,
        roots,
        np.where(is_leaf, 0, np.array(n.attr("nodes_featureids"), np.int64)),
        np.array(_numbers(n, "nodes_values")),
        (children[0], children[1]),
        [_BRANCHES[mode] for mode in modes],
        np.array(kinds, np.int64),
        ~is_leaf & np.array(tracks, bool),
        _count_levels(roots, children),
    )


def _count_levels(roots: Any, children: list[Any]) -> int:
    level, count = roots, 0
    while True:
        below = np.unique(np.concatenate([child[level] for child in children]))
        below = below[np.isin(below, level, invert=True)]
        if not below.size:
            return count
        level, count = below, count + 1
        if count > MOST_LEVELS:
            raise DeclinedError(f"trees must have at most {MOST_LEVELS} levels")


def _find_leaves(t: Translator, trees: Trees, x: Value) -> Value:
    """Return the leaf of each row in each tree, int64 [rows, trees]."""
    bounds = trees.bounds.astype(t.dtype(x))
    nodes = t.op("expand", trees.roots[None], shape=[t.dim(x, 0), len(trees.roots)])
    for _ in range(trees.n_levels):
        features = t.op("gather", trees.features, nodes, axis=0)
        values = t.op("take_along_axis", x, features, axis=1)
        holds = _compare(t, trees, nodes, values, t.op("gather", bounds, nodes, axis=0))
        chosen = (t.op("gather", child, nodes, axis=0) for child in trees.children)
        nodes = t.op("where", holds, *chosen)
    return nodes


def _compare(t: Translator, trees: Trees, nodes: Value, values: Value, bounds: Value) -> Value:
    """Return whether the condition of each node holds, bool [rows, trees]."""
    first, *others = trees.modes
    holds = t.op(first, values, bounds)
    for number, mode in enumerate(others, 1):
        is_own = t.op("gather", trees.kinds == number, nodes, axis=0)
        holds = t.op("where", is_own, t.op(mode, values, bounds), holds)
    if trees.tracks.any():
        tracks = t.op("gather", trees.tracks, nodes, axis=0)
        missing = t.op("logical_and", tracks, t.op("isnan", values))
        holds = t.op("logical_or", holds, missing)
    return holds


def _sum_weights(t: Translator, n: Node, kind: str, x: Value, count: int) -> Value:
    """Return the sums of leaf weights, [rows, count]."""
    trees, dtype = _read(n), t.dtype(x)
    weights = _numbers(n, f"{kind}_weights")
    table = np.zeros((len(trees.features), count), dtype)
    pairs = zip(n.attr(f"{kind}_treeids"), n.attr(f"{kind}_nodeids"), strict=True)
    columns = n.attr(f"{kind}_ids") if count > 1 else [0] * len(weights)
    np.add.at(table, ([trees.places[pair] for pair in pairs], columns), weights)
    found = t.op("gather", table, _find_leaves(t, trees, x), axis=0)
    total = t.op("sum", found, axis=[1])
    aggregate = n.attr("aggregate_function", "SUM")
    if aggregate == "AVERAGE":
        total = t.op("divide", total, float(len(trees.roots)))
    elif aggregate != "SUM":
        raise DeclinedError(f"aggregate_function must be SUM or AVERAGE, got {aggregate}")
    base = _numbers(n, "base_values")
    if base is None or not len(base):
        return total
    if len(base) not in (1, count):
        raise DeclinedError(f"base_values must have {count} numbers, got {len(base)}")
    return t.op("add", total, np.array(base, dtype))


@ROWS.row("ai.onnx.ml::TreeEnsembleRegressor")
def regressor(t: Translator, n: Node, x: Value) -> Any:
    total = _sum_weights(t, n, "target", as_floats(t, x), n.attr("n_targets") or 1)
    return t.cast(transform(t, total, n.attr("post_transform")), "float32")


@ROWS.row("ai.onnx.ml::TreeEnsembleClassifier")
def classifier(t: Translator, n: Node, x: Value) -> Any:
    x, labels = as_floats(t, x), read_labels(n, "classlabels_int64s")
    if len(labels) == 2 and len(set(n.attr("class_ids"))) == 1:
        return _choose_from_two(t, n, x, labels)
    if max(n.attr("class_ids")) >= len(labels):
        raise ModelError(f"class_ids must be less than {len(labels)}")
    total = _sum_weights(t, n, "class", x, len(labels))
    scores = transform(t, total, n.attr("post_transform"))
    return label(t, t.op("argmax", total, axis=-1), labels), t.cast(scores, "float32")


def _choose_from_two(t: Translator, n: Node, x: Value, labels: list[int]) -> Any:
    """Compute labels and scores of two classes if only one has weights, as in ONNX Runtime."""
    is_probability = min(_numbers(n, "class_weights")) >= 0
    total = _sum_weights(t, n, "class", x, 1)
    if n.attr("post_transform") not in ("NONE", "LOGISTIC"):
        raise DeclinedError("post_transform must be NONE or LOGISTIC for one column of weights")
    is_turned = is_probability and n.attr("post_transform") == "NONE"
    if is_turned:
        other = t.op("subtract", t.scalar(1.0, t.dtype(x)), total)
    else:
        other = t.op("negative", total)
    scores = t.op("concat", [other, total], axis=-1)
    scores = transform(t, scores, n.attr("post_transform"))
    chosen = t.op("greater", total, 0.5 if is_probability else 0.0)
    places = t.cast(t.op("squeeze", chosen, axis=[1]), "int64")
    return label(t, places, labels), t.cast(scores, "float32")
