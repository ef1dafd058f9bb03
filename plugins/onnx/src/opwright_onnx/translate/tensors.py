"""Reads the tensors of a model; external tensors are memory-mapped from the model's folder."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from opwright_onnx.dtypes import Array, dtype_name, numpy_dtype
from opwright_onnx.errors import ModelError
from opwright_onnx.messages import EXTERNAL, DataType, SparseTensorProto, TensorProto, as_onnx
from opwright_onnx.translate.codes import KINDS, as_codes

if TYPE_CHECKING:
    from pathlib import Path

_HALF_BYTES: Final = ("int4", "uint4")
MAX_SPARSE_BYTES: Final = 2**28
"""The maximum size in bytes of a sparse tensor after expansion."""


def read_tensor(tensor: TensorProto, folder: str | None, raw: memoryview | None = None) -> Any:
    """Return the elements of a tensor as a view of the message or of a mapped file.

    Parameters
    ----------
    tensor : TensorProto
    folder : str, optional
        The folder of external tensor files; without it, external tensors are refused.
    raw : memoryview, optional
        The bytes of the tensor if they were stripped from its message, with any alignment.

    Raises
    ------
    ModelError
        If shape and bytes do not match, or the file is not in the folder.
    """
    who = f"tensor {tensor.name!r}"
    if tensor.data_type == DataType.STRING:
        return _read_texts(tensor, who)
    shape, count = _read_shape(tensor, who)
    if tensor.data_type in KINDS and tensor.data_location != EXTERNAL:
        return as_codes(_convert(tensor, raw).reshape(shape))
    dtype = dtype_name(tensor.data_type)
    n_bytes = -(-count // 2) if dtype in _HALF_BYTES else count * numpy_dtype(dtype).itemsize
    if tensor.data_location == EXTERNAL:
        stored = _map_file(tensor, folder, n_bytes, who)
    elif raw is not None:
        stored = np.frombuffer(raw, np.uint8)
    elif tensor.HasField("raw_data"):
        stored = np.frombuffer(tensor.raw_data, np.uint8)
    else:
        return _read_fields(tensor, count, who)
    if stored.size != n_bytes:
        raise ModelError(
            f"{who}: {dtype} {list(shape)} must have {n_bytes} bytes, got {stored.size}"
        )
    if dtype in _HALF_BYTES:
        return _unpack(stored, count, dtype).reshape(shape)
    return stored.view(numpy_dtype(dtype)).reshape(shape)


def _read_shape(tensor: TensorProto, who: str) -> tuple[tuple[int, ...], int]:
    shape = tuple(tensor.dims)
    if any(dim < 0 for dim in shape):
        raise ModelError(f"{who}: dims must be at least 0, got {list(shape)}")
    return shape, math.prod(shape)


def _read_texts(tensor: TensorProto, who: str) -> Array:
    """Return a string tensor as an object array."""
    shape, count = _read_shape(tensor, who)
    if len(tensor.string_data) != count:
        raise ModelError(
            f"{who}: {list(shape)} must have {count} elements, got {len(tensor.string_data)}"
        )
    array = np.empty(count, object)
    try:
        array[:] = [text.decode() for text in tensor.string_data]
    except UnicodeDecodeError as reason:
        raise ModelError(f"{who}: strings must be UTF-8, got {reason}") from None
    return array.reshape(shape)


def _read_fields(tensor: TensorProto, count: int, who: str) -> Array:
    tensor = as_onnx(tensor)
    stored = max(
        len(tensor.float_data),
        len(tensor.int32_data),
        len(tensor.int64_data),
        len(tensor.double_data),
        len(tensor.uint64_data),
    )
    halved = dtype_name(tensor.data_type) in _HALF_BYTES
    if stored not in ({count, -(-count // 2)} if halved else {count}):
        raise ModelError(f"{who}: {list(tensor.dims)} must have {count} elements, got {stored}")
    return _convert(tensor, None)


def _convert(tensor: TensorProto, raw: memoryview | None) -> Array:
    from onnx import numpy_helper  # exporters write raw bytes for ordinary dtypes

    tensor = as_onnx(tensor)
    if raw is not None:
        tensor.raw_data = bytes(raw)
    array: Array = numpy_helper.to_array(tensor)
    return array


def _unpack(stored: Array, count: int, dtype: str) -> Array:
    """Unpack bytes that hold two 4-bit elements into one byte per element."""
    codes = np.empty(stored.size * 2, np.uint8)
    codes[::2], codes[1::2] = stored & 15, stored >> 4
    codes = codes[:count]
    if dtype == "int4":
        return (codes.astype(np.int8) - 16 * (codes > 7).astype(np.int8)).astype(numpy_dtype(dtype))
    return codes.astype(numpy_dtype(dtype))


def _map_file(tensor: TensorProto, folder: str | None, n_bytes: int, who: str) -> Array:
    fields = {entry.key: entry.value for entry in tensor.external_data}
    location = fields.get("location", "")
    if folder is None:
        raise ModelError(
            f"{who}: external data must be in the folder of a file, got a model in memory that "
            f"names {location!r}; load the model by its path"
        )
    path = _find_file(folder, location, who)
    try:
        offset = int(fields.get("offset", 0))
        length = int(fields.get("length", n_bytes))
    except ValueError:
        raise ModelError(f"{who}: offset and length must be numbers, got {fields}") from None
    size = path.stat().st_size
    if offset < 0 or length < 0 or offset + length > size:
        raise ModelError(
            f"{who}: offset + length must be at most the {size} bytes of {location!r}, got "
            f"{offset} + {length}"
        )
    if length != n_bytes:
        raise ModelError(f"{who}: length must be the {n_bytes} bytes of its shape, got {length}")
    if n_bytes == 0:
        return np.empty(0, np.uint8)
    return np.memmap(path, np.uint8, "c", offset, (n_bytes,))


def _find_file(folder: str, location: str, who: str) -> Path:
    """Return the path of a regular file below a folder; links that leave the folder are refused."""
    from pathlib import Path  # the import takes 4 ms

    root = Path(folder).resolve()
    try:
        path = (root / location).resolve()
        is_inside = path.is_relative_to(root) and path.is_file()
    except (OSError, ValueError, RuntimeError):
        is_inside = False
    if not location or not is_inside:
        raise ModelError(
            f"{who}: location must be a regular file in the folder of the model, got {location!r}"
        )
    return path


def read_sparse(tensor: SparseTensorProto, folder: str | None) -> Array:
    """Return a sparse tensor as a dense array."""
    values, index = read_tensor(tensor.values, folder), read_tensor(tensor.indices, folder)
    shape = tuple(tensor.dims)
    who = f"sparse tensor {tensor.values.name!r}"
    if any(dim < 0 for dim in shape) or math.prod(shape) * values.itemsize > MAX_SPARSE_BYTES:
        raise ModelError(
            f"{who}: dims must take at most {MAX_SPARSE_BYTES} bytes, got {list(shape)}"
        )
    if index.ndim == 2:
        if index.shape[1] != len(shape):
            raise ModelError(
                f"{who}: indices must have {len(shape)} columns, got {list(index.shape)}"
            )
        is_valid = bool(((index >= 0) & (index < np.array(shape, np.int64))).all())
        places = np.ravel_multi_index(tuple(index.T), shape) if is_valid else index[:0, 0]
    else:
        places, is_valid = index, bool(((index >= 0) & (index < math.prod(shape))).all())
    if not is_valid or places.shape != values.shape:
        raise ModelError(
            f"{who}: indices must be one valid position in {list(shape)} for each value"
        )
    dense = np.zeros(math.prod(shape), values.dtype)
    dense[places] = values
    return dense.reshape(shape)
