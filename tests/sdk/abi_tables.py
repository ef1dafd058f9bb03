"""The structs of `abi.h`, declared with ctypes."""

from __future__ import annotations

import ctypes as c
from typing import Any

OK, ERROR, REFUSED, OUT_OF_MEMORY, UNSUPPORTED = 0, 1, 2, 3, 4
LOG_ERROR = 40
CAPTURABLE, NONDETERMINISTIC, STRIDED = 1, 2, 4
PACKABLE = 1
UNREAD = 8

_pointer = c.c_void_p
_u32, _u64, _i32, _i64 = c.c_uint32, c.c_uint64, c.c_int32, c.c_int64


def struct(name: str, *fields: tuple[str, Any]) -> type[c.Structure]:
    """Return a class of ctypes structures."""
    return type(name, (c.Structure,), {"_fields_": list(fields)})


DLDataType = struct("DLDataType", ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16))
DLTensor = struct(
    "DLTensor",
    ("data", _pointer),
    ("device_type", _i32),
    ("device_id", _i32),
    ("ndim", _i32),
    ("dtype", DLDataType),
    ("shape", c.POINTER(_i64)),
    ("strides", c.POINTER(_i64)),
    ("byte_offset", _u64),
)
String = struct("String", ("data", c.c_char_p), ("length", _u64))
Reuse = struct("Reuse", ("output", c.c_char_p), ("input", c.c_char_p))
Pack = struct("Pack", ("arg", _u32), ("alignment", _u32), ("bytes", _u64))
Attr = struct(
    "Attr",
    ("size", _u64),
    ("name", c.c_char_p),
    ("type", _i32),
    ("reserved", _u32),
    ("count", _u64),
    ("int_value", _i64),
    ("float_value", c.c_double),
    ("string", String),
    ("ints", c.POINTER(_i64)),
    ("floats", c.POINTER(c.c_double)),
    ("strings", c.POINTER(String)),
    ("bools", c.POINTER(c.c_uint8)),
)
Kernel = struct(
    "Kernel",
    ("size", _u64),
    ("op_type", c.c_char_p),
    ("device", c.c_char_p),
    ("library", c.c_char_p),
    ("dtypes", c.POINTER(DLDataType)),
    ("n_dtypes", _u64),
    ("priority", _i32),
    ("flags", _u32),
    ("may_reuse", c.POINTER(Reuse)),
    ("n_may_reuse", _u64),
    ("user", _pointer),
    ("prepare", _pointer),
    ("release", _pointer),
    ("bind", _pointer),
    ("unbind", _pointer),
    ("pack", _pointer),
    ("run", _pointer),
)
Op = struct(
    "Op",
    ("size", _u64),
    ("type", c.c_char_p),
    ("proto", _pointer),
    ("proto_bytes", _u64),
    ("infer", _pointer),
    ("gradient_type", c.c_char_p),
    ("no_gradient_reason", c.c_char_p),
    ("flags", _u32),
    ("n_gradient_needs", _u32),
    ("gradient_needs", c.POINTER(c.c_char_p)),
)
Error = struct("Error", ("message", _pointer), ("message_bytes", _u64))
# ctypes converts the Python arguments of function pointers; 64-bit integers must be wrapped.
_STATUS = c.CFUNCTYPE(_i32)
_NOTHING = c.CFUNCTYPE(None)
Device = struct(
    "Device",
    ("size", _u64),
    ("name", c.c_char_p),
    ("dlpack_code", _i32),
    ("flags", _u32),
    ("alignment", _u64),
    ("user", _pointer),
    ("count", _STATUS),
    ("open", _STATUS),
    ("close", _NOTHING),
    ("allocate", _STATUS),
    ("free", _NOTHING),
    ("allocate_host", _STATUS),
    ("free_host", _NOTHING),
    ("memory_info", _STATUS),
    ("copy", _STATUS),
    ("synchronize", _STATUS),
    ("stream_create", _STATUS),
    ("stream_destroy", _NOTHING),
    ("stream_synchronize", _STATUS),
    ("event_create", _STATUS),
    ("event_destroy", _NOTHING),
    ("event_record", _STATUS),
    ("event_wait", _STATUS),
    ("event_synchronize", _STATUS),
    ("begin_capture", _STATUS),
    ("end_capture", _STATUS),
    ("replay", _STATUS),
    ("graph_destroy", _NOTHING),
)
Plugin = struct(
    "Plugin",
    ("size", _u64),
    ("abi_major", _u32),
    ("abi_minor", _u32),
    ("name", c.c_char_p),
    ("version", c.c_char_p),
    ("ops", c.POINTER(Op)),
    ("n_ops", _u64),
    ("op_stride", _u64),
    ("kernels", c.POINTER(Kernel)),
    ("n_kernels", _u64),
    ("kernel_stride", _u64),
    ("devices", _pointer),
    ("n_devices", _u64),
    ("device_stride", _u64),
)
Prepare = struct(
    "Prepare",
    ("size", _u64),
    ("host", _pointer),
    ("kernel", c.POINTER(Kernel)),
    ("device", _pointer),
    ("device_state", _pointer),
    ("op_type", c.c_char_p),
    ("args", c.POINTER(c.POINTER(DLTensor))),
    ("slot_begin", c.POINTER(_u32)),
    ("arg_flags", c.POINTER(_u32)),
    ("n_slots", _u32),
    ("n_inputs", _u32),
    ("attrs", c.POINTER(Attr)),
    ("n_attrs", _u64),
    ("attr_stride", _u64),
    ("n_threads", _i32),
    ("pack_capacity", _u32),
    ("prepared", _pointer),
    ("workspace_bytes", _u64),
    ("estimate_ns", _u64),
    ("packs", c.POINTER(Pack)),
    ("n_packs", _u32),
    ("out_flags", _u32),
    ("message", _pointer),
    ("message_bytes", _u64),
)
Call = struct(
    "Call",
    ("size", _u64),
    ("args", c.POINTER(c.POINTER(DLTensor))),
    ("slot_begin", c.POINTER(_u32)),
    ("n_slots", _u32),
    ("n_threads", _i32),
    ("prepared", _pointer),
    ("bound", _pointer),
    ("stream", _pointer),
    ("workspace", _pointer),
    ("workspace_bytes", _u64),
    ("host", _pointer),
    ("run_handle", _pointer),
    ("message", _pointer),
    ("message_bytes", _u64),
)
Infer = struct(
    "Infer",
    ("size", _u64),
    ("host", _pointer),
    ("op_type", c.c_char_p),
    ("inputs", c.POINTER(c.POINTER(DLTensor))),
    ("slot_begin", c.POINTER(_u32)),
    ("output_counts", c.POINTER(_u32)),
    ("n_inputs", _u32),
    ("n_outputs", _u32),
    ("attrs", c.POINTER(Attr)),
    ("n_attrs", _u64),
    ("attr_stride", _u64),
    ("infer_handle", _pointer),
    ("message", _pointer),
    ("message_bytes", _u64),
)
Resize = c.CFUNCTYPE(_i32, c.POINTER(Call), _u32, _i32, c.POINTER(_i64))
Log = c.CFUNCTYPE(None, _i32, c.c_char_p)
SetOutput = c.CFUNCTYPE(_i32, c.POINTER(Infer), _u32, _u32, _i32, c.POINTER(_i64), DLDataType)
Parallel = c.CFUNCTYPE(None, _i32, _i32, c.CFUNCTYPE(None, _pointer, _i32), _pointer)
Host = struct(
    "Host",
    ("size", _u64),
    ("abi_major", _u32),
    ("abi_minor", _u32),
    ("core_version", c.c_char_p),
    ("resize", Resize),
    ("allocate", _pointer),
    ("deallocate", _pointer),
    ("log", Log),
    ("set_output", SetOutput),
    ("parallel", Parallel),
)
