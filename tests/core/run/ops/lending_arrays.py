"""Arrays with the DLPack C exchange API, as in PyTorch, and arrays with less DLPack support."""

from __future__ import annotations

import array
import ctypes
from ctypes import (
    POINTER,
    PYFUNCTYPE,
    Structure,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)

import ml_dtypes
import numpy as np

_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


class _Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _Managed(Structure):
    pass


_Deleter = PYFUNCTYPE(None, POINTER(_Managed))
_Managed._fields_ = [
    ("major", c_uint32),
    ("minor", c_uint32),
    ("context", c_void_p),
    ("deleter", _Deleter),
    ("flags", c_uint64),
    ("tensor", _Tensor),
]
_FromObject = PYFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))
_View = PYFUNCTYPE(c_int, c_void_p, POINTER(_Tensor))
_ToObject = PYFUNCTYPE(c_int, POINTER(_Managed), POINTER(c_void_p))


class _Api(Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("older", c_void_p),
        ("allocate", c_void_p),
        ("lend", _FromObject),
        ("take", _ToObject),
        ("view", _View),
        ("stream", c_void_p),
    ]


_lent: dict[int, object] = {}


def n_lent() -> int:
    """Return the number of exported arrays that have not been released."""
    return len(_lent)


@_Deleter
def _give_back(managed):
    del _lent[ctypes.addressof(managed.contents)]


@_FromObject
def _lend(address, out):
    owner = ctypes.cast(address, ctypes.py_object).value
    managed = _Managed(1, 3, None, _give_back, 0, _describe(owner))
    _lent[ctypes.addressof(managed)] = (managed, owner.described, owner.array)
    out[0] = ctypes.addressof(managed)
    return 0


def _describe(owner):
    """Return a DLTensor of an array; the array owns shape and strides until the next call."""
    data = owner.array
    type(owner).lends += 1
    shape = (c_int64 * data.ndim)(*data.shape)
    strides = (c_int64 * data.ndim)(*(n // data.itemsize for n in data.strides))
    owner.described = shape, strides
    code = _CODES.get(data.dtype.kind, 4)  # bfloat16
    address = 0 if owner.is_hollow else data.ctypes.data
    return _Tensor(address, 1, 0, data.ndim, code, 8 * data.itemsize, 1, shape, strides, 0)


@_View
def _see(address, out):
    out[0] = _describe(ctypes.cast(address, ctypes.py_object).value)
    return 0


@_ToObject
def _take(managed, out):
    made = Exchanged.__new__(Exchanged)
    made.taken = managed.contents
    tensor = made.taken.tensor
    kind = {code: kind for kind, code in _CODES.items()}.get(tensor.code, "bfloat")
    names = {"b": "?", "bfloat": ml_dtypes.bfloat16}
    dtype = np.dtype(names.get(kind, f"{kind}{tensor.bits // 8}"))
    shape = tuple(tensor.shape[: tensor.ndim])
    size = int(np.prod(shape)) * dtype.itemsize
    memory = (ctypes.c_char * size).from_address(tensor.data)
    made.array = np.frombuffer(memory, dtype).reshape(shape)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    out[0] = id(made)
    return 0


_API_NAME = b"dlpack_exchange_api"  # a capsule keeps the address of its name
_api = _Api(1, 3, None, None, _lend, _take, _View(), None)
_api_with_views = _Api(1, 3, None, None, _lend, _take, _see, None)
ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [c_void_p, ctypes.c_char_p, c_void_p]


class Plain:
    """An array that is exported only through ``__dlpack__``; `calls` counts these calls."""

    calls = 0
    requires_grad = False

    def __init__(self, values):
        self.array = np.array(values)

    def __dlpack__(self, **options):
        type(self).calls += 1
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def detach(self):
        """Return an array over the same memory that does not require a gradient."""
        made = type(self).__new__(type(self))
        made.array = self.array
        return made

    def __array_namespace__(self):
        return _namespace_of(type(self))


class Exchanged(Plain):
    """An array of a library with an exchange API."""

    __dlpack_c_exchange_api__ = ctypes.pythonapi.PyCapsule_New(
        ctypes.addressof(_api), _API_NAME, None
    )
    taken = None
    is_hollow = False
    lends = 0  # exports without a call of __dlpack__

    def __del__(self):
        if self.taken is not None:
            self.taken.deleter(self.taken)


class Viewed(Exchanged):
    """An array that can also be viewed in place without an export; results are `Exchanged`."""

    __dlpack_c_exchange_api__ = ctypes.pythonapi.PyCapsule_New(
        ctypes.addressof(_api_with_views), _API_NAME, None
    )


class Buffered(array.array):
    """A float32 array that is exported through the buffer protocol, like JAX arrays."""

    calls = 0

    def __new__(cls, values):
        return super().__new__(cls, "f", list(values))

    def __dlpack__(self, **options):
        type(self).calls += 1
        return np.asarray(self).__dlpack__(**options)

    def __dlpack_device__(self):
        return 1, 0

    def __array_namespace__(self):
        return _namespace_of(type(self))


def _namespace_of(kind):
    class Namespace:
        @staticmethod
        def from_dlpack(array):
            return kind(np.from_dlpack(array))

    return Namespace
