"""Reader of the CIFAR-10 and CIFAR-100 binary files: color images of 32×32 pixels.

Format: records of one label byte (CIFAR-10) or two, coarse and fine (CIFAR-100), then 1,024 bytes
each of red, green and blue, row by row (https://www.cs.toronto.edu/~kriz/cifar.html).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeTypeError, FormatError
from opwright.plugin import path_of
from opwright_nn import arguments, checks
from opwright_nn.datasets.dataset import Dataset

__all__ = ["read"]

_SHAPE = (3, 32, 32)
_IMAGE_BYTES = 3 * 32 * 32
# The number of label bytes, the index of the label among them, and the number of classes.
_KINDS = {"cifar10": (1, 0, 10), "cifar100": (2, 1, 100), "cifar100-coarse": (2, 0, 20)}


@arguments.suggest
def read(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    kind: str = "cifar10",
    max_bytes: int = 1 << 30,
) -> Dataset:
    """Read one binary file, or several one after the other: ``read("test_batch.bin")``.

    Parameters
    ----------
    paths : str, path or sequence of them
        The files, such as ``data_batch_1.bin``.
    kind : str
        ``"cifar10"``, ``"cifar100"`` (100 fine classes) or ``"cifar100-coarse"`` (20 classes). The
        files do not contain it; sizes and labels are checked against it.
    max_bytes : int, at least 0
        The size limit of each file.

    Returns
    -------
    Dataset
        Images float32 [n, 3, 32, 32] in [0, 1], labels int64 [n, 1].

    Raises
    ------
    FormatError
        A file is empty, larger than `max_bytes`, not a sequence of complete records, or has a label
        that is not a class.
    OSError
        A file cannot be opened.
    """
    checks.check_choice("cifar.read", "kind", kind, _KINDS)
    limit = checks.check_int("cifar.read", "max_bytes", max_bytes, at_least=0)
    listed: object = [paths] if isinstance(paths, str | os.PathLike) else paths
    if isinstance(listed, bytes) or not isinstance(listed, Sequence) or not listed:
        raise AttributeTypeError(
            f"cifar.read: paths must be a path or a list of at least one, got {paths!r}; pass "
            '["data_batch_1.bin"], for example'
        )
    names = [path_of("cifar.read", path, "file", f"paths[{i}]") for i, path in enumerate(listed)]
    parts = [_read_records(name, kind, limit) for name in names]
    images = np.concatenate([part[0] for part in parts]).reshape(-1, *_SHAPE).astype(np.float32)
    images /= 255
    return Dataset(images, np.concatenate([part[1] for part in parts]).astype(np.int64))


def _read_records(name: str, kind: str, limit: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the images and the label bytes of a file."""
    n_labels, index, n_classes = _KINDS[kind]
    with open(name, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise FormatError(
            f"{name}: a {kind} file may have at most {limit} bytes here, got more; raise max_bytes "
            "if the file is trusted"
        )
    size = n_labels + _IMAGE_BYTES
    if not data or len(data) % size:
        raise FormatError(
            f"{name}: a {kind} file must be one or more records of {size} bytes, got {len(data)} "
            f"bytes ({len(data) % size} after the last whole record); fetch the file again, or "
            f"choose another kind: {', '.join(_KINDS)}"
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, size)
    for column, n in ((index, n_classes), *(((0, 20),) if n_labels > 1 else ())):
        wrong = np.flatnonzero(records[:, column] >= n)
        if len(wrong):
            raise FormatError(
                f"{name}: labels of {kind} must be in 0..{n - 1}, got "
                f"{records[wrong[0], column]} in byte {column} of record {wrong[0]}; choose "
                f"another kind ({', '.join(_KINDS)}), or fetch the file again"
            )
    return records[:, n_labels:], records[:, index : index + 1]
