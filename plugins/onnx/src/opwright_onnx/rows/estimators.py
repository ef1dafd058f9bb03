"""Rows for scikit-learn estimators: scaling, imputation, linear models, support vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opwright_onnx.errors import DeclinedError, ModelError
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value

ROWS = Rows()


def as_floats(t: Translator, x: Value) -> Value:
    """Return features in float32; float64 features keep their dtype."""
    return t.promote(x, "float32", "float64")[0]


def transform(t: Translator, scores: Value, name: str) -> Value:
    """Apply the transformation named by the ``post_transform`` attribute to scores."""
    if name == "NONE":
        return scores
    if name == "LOGISTIC":
        return t.op("sigmoid", scores)
    if name == "SOFTMAX":
        return t.op("softmax", scores, axis=-1)
    raise DeclinedError(f"post_transform must be NONE, LOGISTIC or SOFTMAX, got {name}")


def read_labels(n: Node, name: str) -> list[int]:
    """Return the class labels; raise DeclinedError for string labels, since results are numeric."""
    labels = n.attr(name)
    if not labels:
        raise DeclinedError("labels must be integers, got strings; fit the model on encoded labels")
    return list(labels)


def label(t: Translator, places: Value, labels: Sequence[int]) -> Value:
    """Return the labels at indices."""
    if list(labels) == list(range(len(labels))):
        return places
    return t.op("gather", np.array(labels, np.int64), places, axis=0)


def _row(t: Translator, x: Value, values: Sequence[float]) -> Any:
    return np.array(values, t.dtype(x))


@ROWS.row("ai.onnx.ml::Scaler")
def scaler(t: Translator, n: Node, x: Value) -> Any:
    x = as_floats(t, x)
    moved = t.op("subtract", x, _row(t, x, n.attr("offset") or [0.0]))
    return t.cast(t.op("multiply", moved, _row(t, x, n.attr("scale") or [1.0])), "float32")


@ROWS.row("ai.onnx.ml::Normalizer")
def normalizer(t: Translator, n: Node, x: Value) -> Any:
    x, kind = as_floats(t, x), n.attr("norm")
    last = [t.rank(x) - 1]
    if kind == "MAX":
        size = t.op("max", x, axis=last, keepdims=True)
    else:
        size = t.op("norm", x, axis=last, keepdims=True, p={"L1": 1.0, "L2": 2.0}[kind])
    size = t.op("where", t.op("equal", size, 0.0), t.scalar(1.0, t.dtype(x)), size)
    return t.cast(t.op("divide", x, size), "float32")


@ROWS.row("ai.onnx.ml::Imputer")
def imputer(t: Translator, n: Node, x: Value) -> Any:
    kind = "float" if t.dtype(x).startswith("float") else "int64"
    missing, values = n.attr(f"replaced_value_{kind}", 0), n.attr(f"imputed_value_{kind}s")
    if not values:
        raise ModelError(f"imputed_value_{kind}s must be given for {t.dtype(x)}, got none")
    is_missing = t.op("isnan", x) if missing != missing else t.op("equal", x, missing)
    return t.op("where", is_missing, _row(t, x, values), x)


@ROWS.row("ai.onnx.ml::OneHotEncoder")
def one_hot_encoder(t: Translator, n: Node, x: Value) -> Any:
    kinds = n.attr("cats_int64s")
    if not kinds:
        raise DeclinedError("cats_int64s must be given, got strings")
    if not n.attr("zeros", 1):
        raise DeclinedError("zeros must be 1: other categories must become zeros, got 0")
    number = t.op("unsqueeze", t.cast(x, "int64"), axis=[t.rank(x)])
    return t.cast(t.op("equal", number, np.array(kinds, np.int64)), "float32")


@ROWS.row("ai.onnx.ml::FeatureVectorizer")
def feature_vectorizer(t: Translator, n: Node, *parts: Value) -> Any:
    columns = [t.reshape(part, [-1, 1]) if t.rank(part) == 1 else part for part in parts]
    return t.op("concat", [t.cast(column, "float32") for column in columns], axis=1)


@ROWS.row("ai.onnx.ml::LinearRegressor")
def linear_regressor(t: Translator, n: Node, x: Value) -> Any:
    scores = _score(t, n, as_floats(t, x), n.attr("targets"))
    return t.cast(transform(t, scores, n.attr("post_transform")), "float32")


def _score(t: Translator, n: Node, x: Value, count: int) -> Value:
    """Multiply features by each row of coefficients and add intercepts."""
    coefficients = _row(t, x, n.attr("coefficients"))
    if count < 1 or coefficients.size % count:
        raise ModelError(f"coefficients must have {count} rows, got {coefficients.size} numbers")
    scores = t.op("matmul", x, np.ascontiguousarray(coefficients.reshape(count, -1).T))
    intercepts = n.attr("intercepts")
    return t.op("add", scores, _row(t, x, intercepts)) if intercepts else scores


@ROWS.row("ai.onnx.ml::LinearClassifier")
def linear_classifier(t: Translator, n: Node, x: Value) -> Any:
    x, labels = as_floats(t, x), read_labels(n, "classlabels_ints")
    width = t.known_dim(x, -1, "X")
    count = len(n.attr("coefficients")) // width
    if count != len(labels) and (count, len(labels)) != (1, 2):
        raise ModelError(f"coefficients must have {len(labels)} rows, got {count}")
    scores = _score(t, n, x, count)
    if count < len(labels):
        scores = t.op("concat", [t.op("negative", scores), scores], axis=-1)
    scores = transform(t, scores, n.attr("post_transform"))
    return label(t, t.op("argmax", scores, axis=-1), labels), t.cast(scores, "float32")


@ROWS.row("ai.onnx.ml::SVMRegressor")
def svm_regressor(t: Translator, n: Node, x: Value) -> Any:
    if n.attr("one_class", 0):
        raise DeclinedError("one_class must be 0, got 1")
    x, weights = as_floats(t, x), n.attr("coefficients")
    count = n.attr("n_supports", 0)
    if count:
        x = _kernel(t, n, x, _row(t, x, n.attr("support_vectors")).reshape(count, -1))
    scores = t.op("matmul", x, _row(t, x, weights).reshape(-1, 1))
    scores = t.op("add", scores, n.attr("rho")[0])
    return t.cast(transform(t, scores, n.attr("post_transform")), "float32")


def _kernel(t: Translator, n: Node, x: Value, vectors: Any) -> Value:
    """Evaluate the kernel for each row and support vector; the shape is [rows, vectors]."""
    kind = n.attr("kernel_type")
    gamma, offset, degree = n.attr("kernel_params") or [0.0, 0.0, 0.0]
    if kind == "RBF":
        far = t.op("square", t.op("cdist", x, vectors))
        return t.op("exp", t.op("multiply", far, -gamma))
    products = t.op("matmul", x, np.ascontiguousarray(vectors.T))
    if kind == "LINEAR":
        return products
    moved = t.op("add", t.op("multiply", products, gamma), offset)
    return t.op("tanh", moved) if kind == "SIGMOID" else t.op("power", moved, degree)
