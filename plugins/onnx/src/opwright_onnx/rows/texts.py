"""Rows of label encoders, and of string operators, which are evaluated as a model is loaded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from opwright_onnx.dtypes import Array, numpy_dtype
from opwright_onnx.errors import ModelError
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import MAX_FOLDED_BYTES, Translator
from opwright_onnx.translate.values import Value, is_texts

ROWS = Rows()

MAX_SKIPS: Final = 64
"""The maximum skip count of n-grams in sequences of unknown length."""

_END: Final = 2**63 - 1


def _need(t: Translator, value: Value) -> Array:
    """Return the strings of a value as an array; the value must be known."""
    array = t.need(value, "a string")
    if not is_texts(array):
        raise ModelError(f"elements must be strings, got {array.dtype}")
    return array


def _check_size(n_bytes: int) -> None:
    if n_bytes > MAX_FOLDED_BYTES:
        raise ModelError(f"the strings must have at most {MAX_FOLDED_BYTES} bytes, got {n_bytes}")


def _fill(texts: Iterable[Any], shape: tuple[int, ...]) -> Array:
    array = np.empty(math.prod(shape), object)
    array[:] = list(texts)
    return array.reshape(shape)


@ROWS.row("StringConcat")
def concat(t: Translator, n: Node, x: Value, y: Value) -> Any:
    left, right = np.broadcast_arrays(_need(t, x), _need(t, y))
    _check_size(sum(len(a) + len(b) for a, b in zip(left.flat, right.flat)))
    return _fill((a + b for a, b in zip(left.flat, right.flat)), left.shape)


@ROWS.row("StringSplit")
def split(t: Translator, n: Node, x: Value) -> Any:
    array = _need(t, x)
    delimiter, most = n.attr("delimiter") or None, n.attr("maxsplit", -1)
    parts = [text.split(delimiter, most) for text in array.flat]
    width = max(map(len, parts), default=0)
    _check_size(len(parts) * width * 8)
    padded = [text for found in parts for text in [*found, *[""] * (width - len(found))]]
    lengths = np.array([len(found) for found in parts], np.int64).reshape(array.shape)
    return _fill(padded, (*array.shape, width)), lengths


@ROWS.row("StringNormalizer")
def normalize(t: Translator, n: Node, x: Value) -> Any:
    array = _need(t, x)
    is_strict = bool(n.attr("is_case_sensitive"))
    if array.ndim not in (1, 2) or array.shape[:-1] not in ((), (1,)):
        raise ModelError(f"the shape of x must be [C] or [1, C], got {list(array.shape)}")
    stops = {word if is_strict else word.lower() for word in n.attr("stopwords") or ()}
    kept = [text for text in array.flat if (text if is_strict else text.lower()) not in stops]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(n.attr("case_change_action"), str)
    kept = [change(text) for text in kept] or [""]
    return _fill(kept, (*array.shape[:-1], len(kept)))


def _read_table(n: Node, side: str) -> Any:
    """Return the keys or values of a LabelEncoder as an array."""
    for kind, dtype in (("strings", object), ("int64s", np.int64), ("floats", np.float32)):
        if n.attr(f"{side}_{kind}") is not None:
            return np.array(n.attr(f"{side}_{kind}"), dtype)
    found = n.attr(f"{side}_tensor")
    if found is None:
        raise ModelError(f"{side} must be given, got none")
    return found.reshape(-1)


@ROWS.row("ai.onnx.ml::LabelEncoder")
def encode(t: Translator, n: Node, x: Value) -> Any:
    if n.opset < 2:
        raise ModelError(f"its opset must be at least 2, got {n.opset}")
    keys, values = _read_table(n, "keys"), _read_table(n, "values")
    if keys.shape != values.shape:
        raise ModelError(
            f"each of the {keys.size} keys must have a value, got {values.size} values"
        )
    default = n.attr("default_tensor")
    if default is None:
        kind = {"O": "string", "i": "int64", "f": "float"}.get(values.dtype.kind)
        default = np.array(n.attr(f"default_{kind}"), values.dtype)
    if is_texts(keys) or is_texts(values):
        found = _need(t, x) if is_texts(keys) else t.need(x, "x")
        table = dict(zip(keys.tolist(), values.tolist()))
        mapped = [table.get(key, default.reshape(-1)[0]) for key in found.ravel().tolist()]
        if is_texts(values):
            return _fill(mapped, found.shape)
        return np.array(mapped, values.dtype).reshape(found.shape)
    return _look_up(t, x, keys, values, default.reshape([]))


def _look_up(t: Translator, x: Value, keys: Array, values: Array, default: Array) -> Any:
    """Map each element to the value of the last equal key; NaN equals NaN."""
    column = t.op("unsqueeze", t.cast(x, t.dtype(keys)), axis=[-1])
    hits = t.op("equal", column, keys)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        both = t.op("logical_and", t.op("isnan", column), np.isnan(keys))
        hits = t.op("logical_or", hits, both)
    numbers = t.op("where", hits, np.arange(1, keys.size + 1), t.scalar(0, "int64"))
    place = t.op("max", numbers, axis=[-1], keepdims=False)
    return t.op("gather", np.concatenate([default.reshape(1), values]), place)


@ROWS.row("TfIdfVectorizer")
def count_grams(t: Translator, n: Node, x: Value) -> Any:
    pool, x = _as_numbers(t, n, x)
    rank = t.rank(x)
    if rank not in (1, 2):
        raise ModelError(f"x must have 1 or 2 axes, got {rank}")
    rows = t.op("unsqueeze", x, axis=[0]) if rank == 1 else x
    starts, places = list(n.attr("ngram_counts")), np.array(n.attr("ngram_indexes"), np.int64)
    counts, start = [], 0
    for size, begin in enumerate(starts, 1):
        end = starts[size] if size < len(starts) else pool.size
        if not 0 <= begin <= end <= pool.size or (end - begin) % size:
            raise ModelError(f"ngram_counts must divide {pool.size} numbers, got {starts}")
        grams = pool[begin:end].reshape(-1, size)
        own, start = places[start : start + len(grams)], start + len(grams)
        if n.attr("min_gram_length") <= size <= n.attr("max_gram_length") and len(grams):
            counts.append((_count(t, rows, grams, n.attr("max_skip_count")), own))
    weights = n.attr("weights") if n.attr("mode") != "TF" else None
    found = _place(t, counts, places, weights, is_capped=n.attr("mode") == "IDF")
    return t.op("squeeze", found, axis=[0]) if rank == 1 else found


def _as_numbers(t: Translator, n: Node, x: Value) -> tuple[Array, Value]:
    """Return the pool and elements as integers; strings become their index in the pool."""
    words = n.attr("pool_strings")
    if words is None:
        return np.array(n.attr("pool_int64s") or [], np.int64), t.cast(x, "int64")
    numbers = {word: i for i, word in enumerate(dict.fromkeys(words))}
    array = _need(t, x)
    coded = np.array([numbers.get(text, -1) for text in array.flat], np.int64)
    return np.array([numbers[word] for word in words], np.int64), coded.reshape(array.shape)


def _count(t: Translator, rows: Value, grams: Array, most: int) -> Value:
    """Count each n-gram per row, [N, P], with 0 to `most` elements skipped between its elements."""
    size = grams.shape[1]
    length = t.shape(rows)[1]
    least = min(most, MAX_SKIPS if length is None else max(length - 1, 0))
    if length is None and most > MAX_SKIPS:
        raise ModelError(f"max_skip_count must be at most {MAX_SKIPS}, got {most}")
    total: Value = None
    for step in range(1, 2 if size == 1 else least + 2):
        hits: Value = None
        for k in range(size):
            end = -(size - 1 - k) * step or _END
            part = t.op("unsqueeze", t.slice(rows, [1], [k * step], [end]), axis=[2])
            same = t.op("equal", part, np.ascontiguousarray(grams[:, k]))
            hits = same if hits is None else t.op("logical_and", hits, same)
        found = t.op("sum", t.cast(hits, "float32"), axis=[1], keepdims=False)
        total = found if total is None else t.op("add", total, found)
    return total


def _place(
    t: Translator, counts: list[Any], places: Array, weights: Any, *, is_capped: bool
) -> Value:
    """Place each count, or min(count, 1) if `is_capped`, in its column and apply the weights."""
    width = int(places.max(initial=-1)) + 1
    if places.min(initial=0) < 0 or width * max(places.size, 1) * 4 > MAX_FOLDED_BYTES:
        raise ModelError(f"ngram_indexes must be small and at least 0, got up to {width - 1}")
    if not counts:
        raise ModelError(
            "pool must have n-grams of a length from min_gram_length to max_gram_length, got none"
        )
    own = np.concatenate([columns for _, columns in counts])
    chosen = np.zeros((own.size, width), np.float32)
    chosen[np.arange(own.size), own] = 1
    found = t.op("matmul", t.op("concat", [each for each, _ in counts], axis=1), chosen)
    found = t.op("minimum", found, 1) if is_capped else found
    if not weights:
        return found
    column = np.zeros(width, numpy_dtype("float32"))
    column[places] = weights
    return t.op("multiply", found, column)
