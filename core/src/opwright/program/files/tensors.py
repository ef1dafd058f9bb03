"""`load_tensors`: the arrays of a safetensors file, whoever wrote it."""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import NDArray

from opwright.errors import FileMissingError
from opwright.program.files.disk import open_regular
from opwright.program.files.opening import folder_of
from opwright.program.files.safetensors_file import read_array, read_header


def load_tensors(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a safetensors file, such as a ``state_dict`` of PyTorch, by name.

    Nothing in the file is run, and no more memory is taken than it has bytes.

    Parameters
    ----------
    path : str or PathLike
        The file.

    Raises
    ------
    FileMissingError
        There is no such file.
    FormatError
        It is truncated, or no safetensors file, or has a dtype that opwright lacks.
    """
    file = folder_of("load_tensors", path)
    try:
        with open_regular(file, follow=True) as handle:
            tensors = read_header(file, handle).tensors
            return {name: read_array(file, handle, tensor) for name, tensor in tensors.items()}
    except FileNotFoundError:
        raise FileMissingError(
            f"{file}: must be a safetensors file, got no such file; check the path"
        ) from None
