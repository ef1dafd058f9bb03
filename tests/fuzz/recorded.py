"""Stores cases as JSON files in which bytes and arrays are written as text."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1


def encode(value: Any) -> Any:
    """Convert a case, or a part of it, to JSON values."""
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [encode(item) for item in value]}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray):
        strides = [
            stride // value.itemsize if dim > 1 and value.size else 0
            for dim, stride in zip(value.shape, value.strides, strict=True)
        ]
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": [value.dtype.name, list(value.shape), strides, data]}
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, str):
        # A name can contain a lone surrogate.
        return {"str": value.encode("utf-8", "surrogatepass").hex()} if _is_odd(value) else value
    return value


def _is_odd(text: str) -> bool:
    return not text.isprintable() or any("\ud800" <= sign <= "\udfff" for sign in text)


def decode(value: Any) -> Any:
    """Invert `encode`."""
    if not isinstance(value, dict):
        return value
    ((kind, item),) = value.items()
    if kind == "dict":
        return {decode(key): decode(inner) for key, inner in item}
    if kind in ("list", "tuple"):
        listed = [decode(inner) for inner in item]
        return tuple(listed) if kind == "tuple" else listed
    if kind == "bytes":
        return base64.b64decode(item)
    if kind == "float":
        return float.fromhex(item)
    if kind == "str":
        return bytes.fromhex(item).decode("utf-8", "surrogatepass")
    return _decode_array(*item)


def _decode_array(dtype: str, shape: list[int], strides: list[int], data: str) -> np.ndarray:
    array = np.frombuffer(base64.b64decode(data), dtype).reshape(shape).copy()
    if array.size == 0 or array.ndim == 0:
        return array
    backwards = [axis for axis, stride in enumerate(strides) if stride < 0]
    order = np.argsort([-abs(stride) for stride in strides], kind="stable")
    laid_out = np.flip(array, backwards).transpose(order).copy().transpose(np.argsort(order))
    return np.flip(laid_out, backwards)


def write_case(path: Path, target: str, setting: dict[str, Any], case: Any, note: str) -> None:
    """Write one case with the reason why it is stored."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "format": FORMAT,
        "target": target,
        "note": note,
        "setting": setting,
        "case": encode(case),
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_case(path: Path) -> tuple[str, dict[str, Any], Any]:
    """Read a case from a file; return its target, its settings and the case."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if content["format"] != FORMAT:
        raise ValueError(f"{path}: format must be {FORMAT}, got {content['format']}")
    return content["target"], content["setting"], decode(content["case"])
