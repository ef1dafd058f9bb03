"""Serializes bytes, numbers and arrays for an engine's `gather`, and parses them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from opwright.errors import AttributeTypeError
from opwright.op import dtype_from_numpy, dtype_to_numpy
from opwright_dist.errors import DistError

_NUMBERS: Final = (bool, int, float)


def pack(value: Any) -> bytes:
    """Serialize a value as a line of JSON that describes it, followed by its bytes.

    Raises
    ------
    AttributeTypeError
        If the value is not bytes, a number or an array.
    DtypeError
        If opwright does not support the dtype of the array, for example object.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return b'{"kind": "bytes"}\n' + value
    if type(value) in _NUMBERS:
        text = value.hex() if isinstance(value, float) else f"{value:x}"
        return json.dumps({"kind": type(value).__name__, "value": text}).encode() + b"\n"
    array = _find_array(value)
    dtype = dtype_from_numpy(array.dtype)
    array = np.asarray(array, dtype_to_numpy(dtype), order="C")
    head = {"kind": "array", "dtype": dtype, "shape": array.shape}
    return json.dumps(head).encode() + b"\n" + array.tobytes()


def _find_array(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    raise AttributeTypeError(
        f"gather: data must be bytes, a number or an array, got {type(value).__name__}; "
        "encode strings, and convert lists to arrays"
    )


def unpack(parts: Sequence[bytes]) -> list[Any]:
    """Return the values packed by `pack`, one per process.

    Raises
    ------
    DistError
        If the kinds or dtypes of the values differ.
    """
    splits = [part.partition(b"\n") for part in parts]
    heads = [json.loads(head) for head, _, _ in splits]
    kinds = [head.get("dtype", head["kind"]) for head in heads]
    for rank, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise DistError(
                "gather: all processes must pass data of the same kind and dtype, got "
                f"{kinds[0]} on rank 0 and {kind} on rank {rank}; convert the data first"
            )
    return [_read(head, data) for head, (_, _, data) in zip(heads, splits, strict=True)]


def _read(head: dict[str, Any], data: bytes) -> Any:
    kind = head["kind"]
    if kind == "bytes":
        return data
    if kind == "array":
        array = np.frombuffer(data, dtype_to_numpy(head["dtype"]))
        return array.reshape(head["shape"]).copy()
    if kind == "float":
        return float.fromhex(head["value"])
    number = int(head["value"], 16)
    return bool(number) if kind == "bool" else number
