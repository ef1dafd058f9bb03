"""Locates NCCL and the opwright-nccl library, and calls its functions."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any, Final

import opwright_nccl
from opwright_dist import DistError
from opwright_dist.libraries import find_in_wheel, find_own_library

LIBRARY_VARIABLE: Final = "OPWRIGHT_NCCL_LIBRARY"
"""Variable with the path of a libnccl.so.2 that replaces the wheel."""

WHEEL: Final = "nvidia-nccl-cu13"
INSTALL: Final = f"pip install {WHEEL}"
ID_BYTES: Final = 128

_NAME: Final = "libnccl.so.2"
_TEXT_BYTES: Final = 16_384


class Progress(ctypes.Structure):
    """The progress of the collectives of a group, as declared in ``cu/progress.h``."""

    _fields_ = (
        ("begun", ctypes.c_longlong),
        ("ended", ctypes.c_longlong),
        ("operation", ctypes.c_int),
        ("differs", ctypes.c_int),
        ("first", ctypes.c_longlong * 2),
        ("other", ctypes.c_longlong * 2),
        ("released", ctypes.c_int),
        ("reserved", ctypes.c_int),
    )


def find_library() -> str:
    """Return the path of NCCL.

    Raises
    ------
    DistError
        If NCCL is not installed.
    """
    path = os.environ.get(LIBRARY_VARIABLE) or find_in_wheel(WHEEL, _NAME)
    if path is None:
        raise DistError(
            f"opwright-nccl: NCCL must be installed, got no {_NAME} in the wheel "
            f"{WHEEL!r}; {INSTALL}, or set {LIBRARY_VARIABLE} to its path"
        )
    return path


@cache
def own_library() -> ctypes.CDLL:
    """Return the opwright-nccl library."""
    library = ctypes.CDLL(str(find_own_library(opwright_nccl, "nccl.so")))
    library.opwright_nccl_set_deadline.argtypes = [ctypes.c_double]
    library.opwright_nccl_name.restype = ctypes.c_char_p
    return library


def ask(name: str, *arguments: Any) -> tuple[int, str]:
    """Call a function with a string buffer as last parameter; return its result and the string."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    function = getattr(own_library(), f"opwright_nccl_{name}")
    answer: int = function(*arguments, text, ctypes.c_int64(_TEXT_BYTES))
    return answer, text.value.decode(errors="replace")


def call(name: str, *arguments: Any) -> str:
    """Call a function that returns a string or reports an error; return the string.

    Raises
    ------
    DistError
        If the function reports an error.
    """
    answer, text = ask(name, *arguments)
    if answer == 1:
        raise DistError(f"opwright-nccl: {text}")
    return text


def open_library() -> str:
    """Open NCCL once per process and return its path.

    Raises
    ------
    DistError
        If NCCL is missing, cannot be opened, or is too old.
    """
    path = find_library()
    # Capture must not wait for other processes: one process can recapture while others replay.
    os.environ.setdefault("NCCL_GRAPH_REGISTER", "0")
    call("open", path.encode())
    return path


def make_id() -> bytes:
    """Return a new NCCL id, 128 bytes."""
    made = ctypes.create_string_buffer(ID_BYTES)
    call("make_id", made)
    return made.raw
