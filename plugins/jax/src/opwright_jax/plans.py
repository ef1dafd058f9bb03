"""Plans that XLA custom calls run. Plans are created when an XLA program is loaded, and cached."""

from __future__ import annotations

import atexit
import contextvars
import ctypes
import json
import math
import sys
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np

import opwright as ow
from opwright.errors import FormatError, OpwrightError
from opwright.op import Meta, dtype_to_numpy
from opwright_jax.pieces import read_program

TARGET: Final = "opwright_jax"
"""The name of the custom call."""

_RESOLVE = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_uint64,
    ctypes.c_uint64,
    ctypes.c_uint64,
    ctypes.c_void_p,
    ctypes.c_uint64,
)
_numbers = count()
_kept: dict[int, Any] = {}
"""Plans by number, kept as long as the library keeps them; the library limits their number."""


@lru_cache(maxsize=1)
def open_library() -> Any:
    """Return the library of the handler, which looks up plans with functions of this module."""
    folders = sys.modules[__name__.partition(".")[0]].__path__  # editable packages have two
    library = ctypes.CDLL(
        next(str(p) for p in (Path(f, "handler.so") for f in folders) if p.exists())
    )
    add = library.opwright_jax_add
    add.restype = ctypes.c_int64
    add.argtypes = [
        *(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p),
        *(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p),
        *(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int64),
    ]
    library.opwright_jax_start.argtypes = [ctypes.c_void_p]
    library.opwright_jax_start(ctypes.cast(_resolve, ctypes.c_void_p))
    # XLA programs are freed later than the objects that create plans.
    atexit.register(library.opwright_jax_start, None)
    return library


def register() -> None:
    """Register the custom call with XLA for the CPU, once per process."""
    library = open_library()
    stages = {
        stage: jax.ffi.pycapsule(getattr(library, f"opwright_jax_{stage}"))
        for stage in ("instantiate", "execute")
    }
    jax.ffi.register_ffi_target(TARGET, stages, platform="cpu")


@_RESOLVE
def _resolve(text: int, length: int, high: int, low: int, message: int, message_bytes: int) -> int:
    """Add the plan that a string describes to the library; return 0, or 1 and a message."""
    try:
        content = ctypes.string_at(text, length).decode()
        # XLA may load programs in its own thread; pins and options of a Context have no effect.
        contextvars.Context().run(_add, content, high, low)
    except BaseException as error:  # noqa: BLE001 - no exception crosses the border
        said = (
            str(error) if isinstance(error, OpwrightError) else f"{type(error).__name__}: {error}"
        )
        data = said.encode(errors="replace")[: message_bytes - 1] + b"\0"
        ctypes.memmove(message, data, len(data))
        return 1
    return 0


def _add(text: str, high: int, low: int) -> None:
    feeds, fetches, plan, order = make_plan(text)
    run, address = plan.direct_entry()
    sizes = np.array([_size_bytes(meta) for _, meta in (*feeds, *fetches)], np.uint64)
    number = next(_numbers)
    _kept[number] = plan
    left = open_library().opwright_jax_add(
        high, low, address, run, len(feeds), len(fetches), sizes.ctypes.data,
        len(order), order.ctypes.data, number
    )  # fmt: skip
    _kept.pop(left, None)


def make_plan(text: str) -> tuple[Any, Any, Any, Any]:
    """Create the plan in a string; return metas of feeds and fetches, the plan and the feed order.

    Raises FormatError for a string that opwright-jax has not written.
    """
    try:
        fields = json.loads(text)
        program = read_program(bytes.fromhex(fields["program"]))
        feeds, fetches = ([(n, Meta(tuple(s), d)) for n, d, s in fields[k]] for k in _KEYS)
        arrays = {name: np.empty(meta.shape, dtype_to_numpy(meta.dtype)) for name, meta in feeds}
    except OpwrightError:
        raise
    except Exception as error:
        raise FormatError(
            f"opwright_jax: a custom call must have a string that opwright-jax has written, got "
            f"{text[:60]!r}: {error}"
        ) from error
    names, results = [name for name, _ in feeds], [name for name, _ in fetches]
    network = ow.Network(program.global_block())
    compiled = network.compile(names, results, "cpu", ow.Scope())
    plan = compiled.plan_for(arrays).lowered.plan
    order = np.array([names.index(name) for name in plan.feed_names], np.uint32)
    return feeds, fetches, plan, order


_KEYS: Final = ("feeds", "fetches")


def _size_bytes(meta: Meta) -> int:
    return math.prod(meta.shape) * int(np.dtype(dtype_to_numpy(meta.dtype)).itemsize)
