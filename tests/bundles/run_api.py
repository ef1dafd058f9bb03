"""Calls functions of opwright/run.h through ctypes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import opwright_cpu
from dl_tensor import DLTensor
from opwright import _runtime

CHECK: Final = 1
INPUTS, OUTPUTS, STATE, LIBRARIES = range(4)
CANCELLED: Final = 5

_CODES = {"f": 2, "i": 0, "u": 1, "b": 6}


class Description(ctypes.Structure):
    """ow_description."""

    _fields_ = (
        ("size", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("ndim", ctypes.c_int32),
        ("steps", ctypes.POINTER(ctypes.c_int64)),
        ("bases", ctypes.POINTER(ctypes.c_int64)),
        ("least_batch", ctypes.c_int64),
        ("most_batch", ctypes.c_int64),
    )


class _Error(ctypes.Structure):
    _fields_ = (("message", ctypes.c_char_p), ("size", ctypes.c_uint64))


class _Options(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint64),
        ("folders", ctypes.c_char_p),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


class RunError(Exception):
    """Raised if a function fails; `status` is the status code that it returned."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def default_folders() -> str:
    """Return the search path for the libraries of opwright-cpu."""
    return os.pathsep.join(opwright_cpu.__path__)


class Library:
    """The functions of a libopwright library, by default the runtime library of this process."""

    def __init__(self, path: str = _runtime.__file__) -> None:
        self.functions = ctypes.CDLL(path)
        self.functions.ow_count.restype = ctypes.c_uint64

    def call(self, name: str, *args: Any) -> None:
        """Call a function whose last argument is an error; raise RunError if it fails."""
        text = ctypes.create_string_buffer(2048)
        error = _Error(ctypes.cast(text, ctypes.c_char_p), len(text))
        status = getattr(self.functions, name)(*args, ctypes.byref(error))
        if status != 0:
            raise RunError(status, text.value.decode())

    def open(self, path: object, folders: str | None = None, flags: int = 0) -> Model:
        """Open a bundle."""
        return Model(self, str(path), default_folders() if folders is None else folders, flags)


class Model:
    """An open bundle with one session."""

    def __init__(self, library: Library, path: str, folders: str, flags: int) -> None:
        self._library = library
        self.handle, self.session = ctypes.c_void_p(), ctypes.c_void_p()
        options = _Options(ctypes.sizeof(_Options), folders.encode(), flags, 0)
        library.call("ow_open", path.encode(), ctypes.byref(options), ctypes.byref(self.handle))
        library.call("ow_session_new", self.handle, ctypes.byref(self.session))

    def close(self) -> None:
        """Free the session and the bundle."""
        functions = self._library.functions
        functions.ow_session_free(self.session)
        functions.ow_release(self.handle)

    def count(self, kind: int) -> int:
        """Return how many objects of this kind the bundle contains."""
        return int(self._library.functions.ow_count(self.handle, kind))

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run on `inputs` (arrays or tensors) and write the results into `outputs`."""
        given, made = _pointers(inputs), _pointers(outputs)
        n_given, n_made = ctypes.c_uint64(len(inputs)), ctypes.c_uint64(len(outputs))
        self._library.call("ow_run", self.session, given, n_given, made, n_made)

    def describe(self, kind: int, i: int) -> Description:
        """Return the description of the `i`-th object of this kind."""
        made = Description(ctypes.sizeof(Description))
        self._library.call("ow_describe", self.handle, kind, ctypes.c_uint64(i), ctypes.byref(made))
        return made

    def get(self, name: str, like: Any) -> Any:
        """Return a copy of a session variable, with the shape and dtype of `like`."""
        value = np.empty_like(like)
        self._library.call("ow_get", self.session, name.encode(), _pointers([value])[0])
        return value

    def cancel(self) -> None:
        """Cancel the current run."""
        self._library.functions.ow_cancel(self.session)


def tensor_of(array: Any) -> DLTensor:
    """Return a view of an array; the array must outlive the view."""
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    code, bits = _CODES[array.dtype.kind], array.dtype.itemsize * 8
    return DLTensor(array.ctypes.data, 1, 0, array.ndim, code, bits, 1, shape, None, 0)


def _pointers(arrays: Sequence[Any]) -> Any:
    tensors = [one if isinstance(one, DLTensor) else tensor_of(one) for one in arrays]
    return (ctypes.POINTER(DLTensor) * max(len(tensors), 1))(*map(ctypes.pointer, tensors))
