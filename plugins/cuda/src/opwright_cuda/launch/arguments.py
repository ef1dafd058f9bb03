"""Kernel parameters (pointers, numbers and structs) in the layout of C++."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from opwright.errors import KernelError

WORKSPACE: Final = -1
"""The argument that points to the workspace, ``kWorkspaceArgument`` of the launcher."""

FAULT: Final = -2
"""The argument that points to the fault record of the device, ``kFaultArgument``."""


class Pointer(NamedTuple):
    """The address of an argument's data or of the workspace, plus an offset in bytes."""

    argument: int
    offset: int

    def __add__(self, n_bytes: int) -> Pointer:  # type: ignore[override]
        """Return the address plus `n_bytes` bytes."""
        return Pointer(self.argument, self.offset + n_bytes)


class Struct:
    """A struct passed by value, with its members in order and aligned as in C.

    Parameters
    ----------
    *members : Pointer, NumPy scalar, NumPy array or Struct
        An array for an array member; None for a null pointer.
    """

    def __init__(self, *members: Argument) -> None:
        self.members = members


Argument: TypeAlias = "Pointer | np.generic | NDArray[Any] | Struct | None"


class Constants:
    """The bytes of all parameters of an operator's launches, before pointers are filled in.

    Parameters
    ----------
    op_type : str
        For error messages.

    Attributes
    ----------
    data : bytearray
        The bytes.
    fixups : list of int
        Argument, byte offset and position in `data` for each pointer.
    """

    def __init__(self, op_type: str) -> None:
        self._op_type = op_type
        self.data = bytearray()
        self.fixups: list[int] = []

    def pack(self, argument: Argument) -> tuple[int, int]:
        """Append one parameter; return its position and its bytes."""
        self._align(8)
        place = len(self.data)
        self._append(argument)
        return place, len(self.data) - place

    def _append(self, argument: Argument) -> None:
        if isinstance(argument, Pointer) or argument is None:
            self._align(8)
            if argument is not None:
                self.fixups += [argument.argument, argument.offset, len(self.data)]
            self.data += bytes(8)
        elif isinstance(argument, Struct):
            alignment = _alignment(argument)
            self._align(alignment)
            for member in argument.members:
                self._append(member)
            self._align(alignment)
            if not argument.members:
                self.data += bytes(1)  # as in C++, an empty struct has one byte
        elif isinstance(argument, (np.generic, np.ndarray)):
            self._align(argument.dtype.alignment)
            self.data += argument.tobytes()
        else:
            raise KernelError(
                f"{self._op_type}: a kernel's parameter must be a Pointer, a NumPy scalar or "
                f"array or a Struct, got {argument!r}; give it a type, such as "
                f"np.int64({argument!r})"
            )

    def _align(self, alignment: int) -> None:
        self.data += bytes(-len(self.data) % alignment)


def _alignment(argument: Argument) -> int:
    if isinstance(argument, Struct):
        return max((_alignment(member) for member in argument.members), default=1)
    if isinstance(argument, (np.generic, np.ndarray)):
        return argument.dtype.alignment
    return 8
