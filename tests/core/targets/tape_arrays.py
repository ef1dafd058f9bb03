"""Arrays of another library on the device "tape"; DLPack exports them, but NumPy cannot read them.

When the last array that uses a block of memory is deleted, the block is filled with NaN and freed.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dl_tensor import DLTensor
from opwright.device import ArrayPlace

CODES = {"float32": (2, 32), "float64": (2, 64), "int64": (0, 64), "bool": (6, 8)}
EXT_DEVICE = 12

_library: Any = None
_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


def connect(path: Path) -> Any:
    """Open the tape library; opwright uses the same handle."""
    global _library  # noqa: PLW0603
    _library = ctypes.CDLL(str(path))
    for name in ("tape_allocate", "tape_host_side", "tape_foreign_stream"):
        getattr(_library, name).restype = ctypes.c_void_p
    return _library


class _Memory:
    def __init__(self, number: int, size: int) -> None:
        self.size = size
        self.pointer: int = _library.tape_allocate(number, ctypes.c_uint64(size))

    def __del__(self) -> None:
        _library.tape_free(ctypes.c_void_p(self.pointer), ctypes.c_uint64(self.size))


class TapeArray:
    """An array of the other library; ``exports`` lists the options of all __dlpack__ calls."""

    source: Any = None

    def __init__(self, array: Any, number: int = 0) -> None:
        array = np.asarray(array)
        self.number = number
        self.shape, self.dtype = array.shape, array.dtype.name
        self.strides: tuple[int, ...] | None = None
        self.owner: Any = _Memory(number, array.nbytes)
        self.pointer: int = self.owner.pointer
        self.exports: list[dict[str, Any]] = []
        self.lent: dict[int, Any] = {}
        if array.size:
            self._host()[...] = array

    @classmethod
    def over(cls, pointer: int, shape: tuple[int, ...], dtype: str, number: int) -> TapeArray:
        made = cls.__new__(cls)
        made.pointer, made.shape, made.dtype, made.number = pointer, shape, dtype, number
        made.owner = made.strides = None
        made.exports, made.lent = [], {}
        return made

    def _host(self) -> Any:
        address = _library.tape_host_side(ctypes.c_void_p(self.pointer))
        size = int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize
        memory = (ctypes.c_uint8 * size).from_address(address)
        return np.frombuffer(memory, self.dtype).reshape(self.shape)

    def numpy(self) -> Any:
        """The current contents."""
        return self._host().copy()

    def __dlpack_device__(self) -> tuple[int, int]:
        return EXT_DEVICE, self.number

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        self.exports.append({"stream": stream, "max_version": max_version})
        return self._capsule()

    def _capsule(self) -> Any:
        managed = Managed()
        n = len(self.shape)
        code, bits = CODES[self.dtype]
        shape = (ctypes.c_int64 * n)(*self.shape)
        managed.tensor = DLTensor(
            *(self.pointer, EXT_DEVICE, self.number, n, code, bits, 1), shape, None, 0
        )
        strides = None
        if self.strides is not None:
            strides = (ctypes.c_int64 * n)(*self.strides)
            managed.tensor.strides = strides
        key = next(_keys)
        managed.deleter = _Deleter(lambda _: _lent.pop(key, None) and None)
        _lent[key] = (managed, shape, strides, self)
        return _python.PyCapsule_New(ctypes.addressof(managed), b"dltensor", None)


class _Versioned(ctypes.Structure):
    pass


_VersionedDeleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Versioned))
_Versioned._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("context", ctypes.c_void_p),
    ("deleter", _VersionedDeleter),
    ("flags", ctypes.c_uint64),
    ("tensor", DLTensor),
]


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
def _lend(address: int, out: Any) -> int:
    array = ctypes.cast(address, ctypes.py_object).value
    shape = (ctypes.c_int64 * len(array.shape))(*array.shape)
    tensor = DLTensor(
        *(array.pointer, EXT_DEVICE, array.number, len(array.shape)),
        *(*CODES[array.dtype], 1, shape, None, 0),
    )
    key = next(_keys)
    deleter = _VersionedDeleter(lambda _: _lent.pop(key, None) and None)
    managed = _Versioned(1, 3, None, deleter, array.is_read_only, tensor)
    _lent[key] = (managed, shape, array)
    out[0] = ctypes.addressof(managed)
    return 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
def _find_stream(code: int, number: int, out: Any) -> int:
    out[0] = _library.tape_foreign_stream()
    return 0


class _Api(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        *((name, ctypes.c_void_p) for name in ("older", "allocate", "lend", "take", "view")),
        ("stream", ctypes.c_void_p),
    ]


_api = _Api(
    *(1, 3, None, None, ctypes.cast(_lend, ctypes.c_void_p), None, None),
    ctypes.cast(_find_stream, ctypes.c_void_p),
)


_API_NAME = b"dlpack_exchange_api"  # a capsule keeps the address of its name


class ExchangedArray(TapeArray):
    """An array with the DLPack C exchange API and a stream of its library, as in PyTorch."""

    __dlpack_c_exchange_api__ = _python.PyCapsule_New(ctypes.addressof(_api), _API_NAME, None)
    is_read_only = False

    def follow(self, source: TapeArray) -> None:
        """Enqueue ``self = max(source, 0)`` on the stream of the library."""
        places = (_library.tape_foreign_stream(), source.pointer, self.pointer)
        size = ctypes.c_int64(int(np.prod(self.shape)))
        _library.tape_relu(*map(ctypes.c_void_p, places), size)
        self.source = source


def take_in_order(source: Any) -> TapeArray:
    """Import a tensor on the stream of the library, as DLPack consumers do."""
    made = from_dlpack(source, stream=_library.tape_foreign_stream())
    made.source = source
    return made


class OldArray(TapeArray):
    """An array whose __dlpack__ has no version argument, as before DLPack 1.0."""

    def __dlpack__(self, *, stream: Any = None) -> Any:  # type: ignore[override]
        self.exports.append({"stream": stream})
        return self._capsule()


_keys = itertools.count()
_lent: dict[int, Any] = {}


def n_lent() -> int:
    """Return the number of exports that have not been released."""
    return len(_lent)


def from_dlpack(source: Any, stream: Any = None) -> TapeArray:
    """Import an object with DLPack, as array libraries do."""
    code, number = source.__dlpack_device__()
    assert code == EXT_DEVICE
    capsule = source.__dlpack__(stream=stream, max_version=None)
    managed = Managed.from_address(_python.PyCapsule_GetPointer(capsule, b"dltensor"))
    tensor = managed.tensor
    names = {codes: name for name, codes in CODES.items()}
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    made = TapeArray.over(tensor.data, shape, names[tensor.code, tensor.bits], number)
    made.owner = capsule
    return made


class _Arrays:
    """Helpers for Python kernels on the tape; ``stream_now`` is the stream on which they run."""

    stream_now: tuple[int, int] | None = None

    def __init__(self) -> None:
        self.views: list[TapeArray] = []
        self.left_with: list[Any] = []

    def view(self, pointer: int, shape: tuple[int, ...], dtype: str, number: int) -> TapeArray:
        self.views.append(TapeArray.over(pointer, shape, dtype, number))
        return self.views[-1]

    @contextmanager
    def stream(self, pointer: int, number: int) -> Iterator[None]:
        before, self.stream_now = self.stream_now, (pointer, number)
        try:
            yield
        except Exception as error:
            self.left_with.append(error)
            raise
        finally:
            self.stream_now = before


ARRAYS = _Arrays()


class PlacedArray:
    """An array without DLPack, whose attribute ``__tape_place__`` is its location.

    Attributes
    ----------
    place : ArrayPlace
        Its location.
    """

    def __init__(self, array: Any, number: int = 0) -> None:
        self.memory = TapeArray(array, number)
        self.place = ArrayPlace(
            self.memory.pointer, self.memory.shape, self.memory.dtype, number, 0
        )

    @property
    def __tape_place__(self) -> ArrayPlace:
        return self.place

    @classmethod
    def later(cls, array: Any) -> PlacedArray:
        """Return max(array, 0), computed asynchronously on the stream of the library."""
        source = TapeArray(array)
        made = cls(np.full_like(array, np.nan))
        stream = _library.tape_foreign_stream()
        places = (ctypes.c_void_p(place) for place in (stream, source.pointer, made.place.pointer))
        _library.tape_relu(*places, ctypes.c_int64(array.size))
        made.source = source
        made.place = made.place._replace(stream=stream)
        return made

    source: TapeArray


class _PlacingArrays(_Arrays):
    """Array helpers of a device that supports arrays like PlacedArray."""

    interface = "__tape_place__"

    def locate(self, place: ArrayPlace) -> ArrayPlace:
        if place.pointer % 256:
            raise ValueError(f"the address must be a multiple of 256, got {place.pointer}; copy it")
        return place

    def describe(self, pointer: int, shape: tuple[int, ...], dtype: str, number: int) -> ArrayPlace:
        if dtype == "int64":
            raise AttributeError("int64 has no name here")
        return ArrayPlace(pointer, shape, dtype, number, 0)


PLACING = _PlacingArrays()


def relu(x: TapeArray, out: TapeArray) -> None:
    """Enqueue max(x, 0) on the current stream."""
    assert ARRAYS.stream_now is not None
    pointer, number = ARRAYS.stream_now
    assert (x.number, out.number) == (number, number)
    size = int(np.prod(x.shape))
    places = (ctypes.c_void_p(place) for place in (pointer, x.pointer, out.pointer))
    _library.tape_relu(*places, ctypes.c_int64(size))
