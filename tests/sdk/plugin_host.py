"""A host for one plugin, written in Python and independent of the C++ host."""

from __future__ import annotations

import ctypes as c
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from abi_tables import (
    OK,
    Attr,
    Call,
    DLDataType,
    DLTensor,
    Host,
    Infer,
    Log,
    Pack,
    Plugin,
    Prepare,
    Resize,
    SetOutput,
    String,
)

from opwright.op import dtype_from_numpy, dtype_to_code

_pointer = c.c_void_p
_u32, _i32, _i64 = c.c_uint32, c.c_int32, c.c_int64

_LIST_FIELDS = {int: ("ints", _i64), float: ("floats", c.c_double), bool: ("bools", c.c_uint8)}
_TYPES = {int: 1, float: 2, str: 3, bool: 4}


def _dlpack_type(dtype: str) -> tuple[int, int]:
    """Return the DLPack type code and the number of bits of a dtype."""
    code = dtype_to_code(dtype)
    return code & 0xFF, code >> 8 & 0xFF


def make_tensor(shape: tuple[int, ...], dtype: str, data: int | None = None) -> Any:
    """Return a compact DLTensor."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    code, bits = _dlpack_type(dtype)
    n = max(len(shape), 1)
    return DLTensor(
        data, 1, 0, len(shape), DLDataType(code, bits, 1), (_i64 * n)(*shape), (_i64 * n)(*strides)
    )


def make_attr(name: str, value: Any) -> Any:
    """Return an attribute; a list has the type of its first element, or int if it is empty."""
    attr = Attr(size=c.sizeof(Attr), name=name.encode(), count=1)
    if isinstance(value, list):
        kind = type(value[0]) if value else int
        attr.type, attr.count = _TYPES[kind] + 4, len(value)
        if kind is str:
            attr.strings = (String * len(value))(*[String(s.encode(), len(s)) for s in value])
        else:
            field, element = _LIST_FIELDS[kind]
            setattr(attr, field, (element * max(len(value), 1))(*value))
        return attr
    attr.type = _TYPES[type(value)]
    if isinstance(value, str):
        attr.string = String(value.encode(), len(value))
    elif isinstance(value, float):
        attr.float_value = value
    else:
        attr.int_value = value
    return attr


def make_attrs(attrs: Mapping[str, Any]) -> Any:
    """Return an array of attributes."""
    return (Attr * max(len(attrs), 1))(*[make_attr(*item) for item in attrs.items()])


def pointers_to(tensors: list[Any]) -> Any:
    """Return an array of pointers to tensors."""
    return (c.POINTER(DLTensor) * max(len(tensors), 1))(*[c.pointer(t) for t in tensors])


def starts_of(counts: list[int]) -> Any:
    """Return the index of the first argument of each slot, and the total number of arguments."""
    return (_u32 * (len(counts) + 1))(*[sum(counts[:i]) for i in range(len(counts) + 1)])


class FailedError(Exception):
    """Raised if a function of the plugin returns a status other than OK."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Library:
    """A plugin library, opened and queried for its table."""

    def __init__(self, path: Path) -> None:
        self.logged: list[tuple[int, str]] = []
        self.inferred: dict[tuple[int, int], tuple[tuple[int, ...], int]] = {}
        self.resized: list[tuple[int, tuple[int, ...]]] = []
        self.set_output_answer = OK
        self.host = Host(
            size=c.sizeof(Host),
            abi_major=1,
            abi_minor=0,
            core_version=b"0",
            resize=Resize(self._resize),
            log=Log(lambda level, text: self.logged.append((level, text.decode()))),
            set_output=SetOutput(self._set_output),
        )
        self.dll = c.CDLL(str(path), mode=0)
        self.code, self.plugin = self.enter()

    def enter(self) -> tuple[int, Any]:
        """Call the entry function."""
        plugin = c.POINTER(Plugin)()
        code = self.dll.opwright_plugin_v1(c.byref(self.host), c.byref(plugin))
        return code, plugin.contents if plugin else None

    def _set_output(self, infer, slot, index, ndim, shape, dtype):
        self.inferred[slot, index] = (tuple(shape[:ndim]), dtype.bits)
        return self.set_output_answer

    def _resize(self, call, arg, ndim, shape):
        self.resized.append((arg, tuple(shape[:ndim])))
        return OK

    @property
    def ops(self) -> dict[str, Any]:
        """The operators by type."""
        return {
            row.type.decode(): row for row in (self.plugin.ops[i] for i in range(self.plugin.n_ops))
        }

    @property
    def kernels(self) -> list[Any]:
        """All kernels."""
        return [self.plugin.kernels[i] for i in range(self.plugin.n_kernels)]

    def proto_bytes(self, type: str) -> bytes:
        """Return the OpProto of an operator as registered."""
        return c.string_at(self.ops[type].proto, self.ops[type].proto_bytes)

    def kernel(self, type: str, dtype: str) -> Any:
        """Return the kernel of an operator for a dtype."""
        wanted = _dlpack_type(dtype)
        for row in self.kernels:
            mine = [(d.code, d.bits) for d in row.dtypes[: row.n_dtypes]] if row.n_dtypes else []
            if row.op_type.decode() == type and (not mine or wanted in mine):
                return row
        raise LookupError(f"{type} for {dtype}")

    def infer(
        self, type: str, inputs: list[tuple[tuple[int, ...], str]], attrs: Mapping[str, Any]
    ) -> dict[tuple[int, int], tuple[tuple[int, ...], int]]:
        """Infer (shape, dtype bits) for the output of an operator that has one output."""
        tensors = [make_tensor(*meta) for meta in inputs]
        message = c.create_string_buffer(512)
        frame = Infer(
            size=c.sizeof(Infer),
            host=c.addressof(self.host),
            op_type=type.encode(),
            inputs=pointers_to(tensors),
            slot_begin=starts_of([1] * len(inputs)),
            output_counts=(_u32 * 1)(1),
            n_inputs=len(inputs),
            n_outputs=1,
            attrs=make_attrs(attrs),
            n_attrs=len(attrs),
            attr_stride=c.sizeof(Attr),
            message=c.addressof(message),
            message_bytes=len(message),
        )
        self.inferred.clear()
        function = c.CFUNCTYPE(_i32, c.POINTER(Infer))(self.ops[type].infer)
        code = function(c.byref(frame))
        if code != OK:
            raise FailedError(code, message.value.decode())
        return dict(self.inferred)


class Step:
    """A prepared kernel with its arguments: NumPy arrays by slot, or None for an absent slot."""

    def __init__(
        self,
        library: Library,
        kernel: Any,
        inputs: list[np.ndarray | None],
        outputs: list[np.ndarray | None],
        attrs: Mapping[str, Any],
        arg_flags: list[int] | None = None,
    ) -> None:
        self.kernel = kernel
        self.arrays = [array for array in (*inputs, *outputs) if array is not None]
        self.tensors = [
            make_tensor(array.shape, dtype_from_numpy(array.dtype), array.ctypes.data)
            for array in self.arrays
        ]
        self.message = c.create_string_buffer(512)
        self.starts = starts_of([int(array is not None) for array in (*inputs, *outputs)])
        self.args = pointers_to(self.tensors)
        self.packs = (Pack * 4)()
        n_args = len(self.tensors)
        self.frame = Prepare(
            size=c.sizeof(Prepare),
            host=c.addressof(library.host),
            kernel=c.pointer(kernel),
            op_type=kernel.op_type,
            args=self.args,
            slot_begin=self.starts,
            arg_flags=(_u32 * (n_args + 1))(*(arg_flags or [0] * n_args)),
            n_slots=len(inputs) + len(outputs),
            n_inputs=len(inputs),
            attrs=make_attrs(attrs),
            n_attrs=len(attrs),
            attr_stride=c.sizeof(Attr),
            n_threads=3,
            pack_capacity=4,
            packs=self.packs,
            message=c.addressof(self.message),
            message_bytes=len(self.message),
        )
        self._check(c.CFUNCTYPE(_i32, c.POINTER(Prepare))(kernel.prepare)(c.byref(self.frame)))
        self.workspace = c.create_string_buffer(self.frame.workspace_bytes + 1)
        self.call = Call(
            size=c.sizeof(Call),
            args=self.args,
            slot_begin=self.starts,
            n_slots=self.frame.n_slots,
            n_threads=3,
            prepared=self.frame.prepared,
            workspace=c.addressof(self.workspace),
            workspace_bytes=self.frame.workspace_bytes,
            host=c.addressof(library.host),
            message=c.addressof(self.message),
            message_bytes=len(self.message),
        )

    def _check(self, code: int) -> None:
        if code != OK:
            raise FailedError(code, self.message.value.decode())

    def bind(self) -> None:
        """Bind the kernel, which creates the state of one instance."""
        bound = c.c_void_p()
        function = c.CFUNCTYPE(_i32, c.POINTER(Call), c.POINTER(_pointer))(self.kernel.bind)
        self._check(function(c.byref(self.call), c.byref(bound)))
        self.call.bound = bound

    def pack(self, arg: int) -> np.ndarray:
        """Pack an argument, replace it with the packed form, and return the packed bytes."""
        packed = np.zeros(self.packs[0].bytes, np.uint8)
        function = c.CFUNCTYPE(_i32, c.POINTER(Call), _u32, c.POINTER(DLTensor), _pointer)
        self._check(
            function(self.kernel.pack)(
                c.byref(self.call), arg, c.byref(self.tensors[arg]), packed.ctypes.data
            )
        )
        self.tensors[arg].data = packed.ctypes.data
        return packed

    def run(self) -> None:
        """Run once."""
        self._check(c.CFUNCTYPE(_i32, c.POINTER(Call))(self.kernel.run)(c.byref(self.call)))

    def close(self) -> None:
        """Free the results of bind and prepare."""
        if self.call.bound:
            c.CFUNCTYPE(None, _pointer, _pointer)(self.kernel.unbind)(
                self.call.prepared, self.call.bound
            )
        c.CFUNCTYPE(None, _pointer)(self.kernel.release)(self.call.prepared)
