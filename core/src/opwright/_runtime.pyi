"""The C++ runtime: tensors, scopes, prepared kernels, plans and the callables that run them.

In all of this module, a *dtype code* is a DLPack type as one int, ``code | bits << 8 | lanes <<
16`` (`opwright.op.dtype_to_code`), a *shape* is a tuple of ints, and the kinds and roles are the
int constants of this module. Errors are classes of `opwright.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, final

import numpy as np
from numpy.typing import ArrayLike

from opwright._runtime_calls import CompiledNetwork as CompiledNetwork
from opwright._runtime_calls import EagerFunction as EagerFunction
from opwright._runtime_calls import EagerOperator as EagerOperator
from opwright._runtime_calls import Namespace as Namespace
from opwright._runtime_calls import Watch as Watch
from opwright._runtime_kernels import ARG_DYNAMIC as ARG_DYNAMIC
from opwright._runtime_kernels import ARG_PACKABLE as ARG_PACKABLE
from opwright._runtime_kernels import ARG_SHAPE_ONLY as ARG_SHAPE_ONLY
from opwright._runtime_kernels import ARG_UNREAD as ARG_UNREAD
from opwright._runtime_kernels import KERNEL_BLOCKS as KERNEL_BLOCKS
from opwright._runtime_kernels import KERNEL_BY_THREADS as KERNEL_BY_THREADS
from opwright._runtime_kernels import KERNEL_CAPTURABLE as KERNEL_CAPTURABLE
from opwright._runtime_kernels import KERNEL_NONDETERMINISTIC as KERNEL_NONDETERMINISTIC
from opwright._runtime_kernels import KERNEL_STRIDED as KERNEL_STRIDED
from opwright._runtime_kernels import Library as Library
from opwright._runtime_kernels import Prepared as Prepared
from opwright._runtime_kernels import RefusedError as RefusedError
from opwright._runtime_kernels import UnsupportedError as UnsupportedError
from opwright._runtime_kernels import limit_threads as limit_threads
from opwright._runtime_kernels import prepare_native as prepare_native
from opwright._runtime_kernels import prepare_python as prepare_python
from opwright._runtime_kernels import use_openmp as use_openmp
from opwright._runtime_plans import Bundle as Bundle
from opwright._runtime_plans import Epoch as Epoch
from opwright._runtime_plans import Plan as Plan
from opwright._runtime_plans import PlanBuilder as PlanBuilder
from opwright._runtime_plans import Plans as Plans
from opwright._runtime_plans import advance_epochs as advance_epochs
from opwright._runtime_plans import describe_plans as describe_plans
from opwright._runtime_plans import describe_processor as describe_processor
from opwright._runtime_plans import free_kept_host as free_kept_host
from opwright._runtime_plans import kept_host_bytes as kept_host_bytes
from opwright._runtime_plans import packed_bytes as packed_bytes
from opwright._runtime_plans import release_plans as release_plans

ARENA: Final = 0
EXTERNAL: Final = 1
NONE: Final = 2
DYNAMIC: Final = 3

FEED: Final = 0
FETCH: Final = 1
PERSISTABLE: Final = 2
CAPTURED: Final = 3

CHECK_TENSORS: Final = 1
ITEM_ALIGNED: Final = 4
CHECK_ALL: Final = 3

ABI_VERSION: Final[tuple[int, int]]

@final
class Device:
    """A device that holds tensors and runs kernels. Devices are compared by identity."""

    @property
    def name(self) -> str: ...
    def name_beside(self, other: Device) -> str:
        """Return the name, with the provider if `other` is a different device of the same name."""
    @property
    def dlpack_code(self) -> int: ...
    @property
    def addressable(self) -> bool:
        """Whether offsets can be added to pointers."""
    @property
    def shares_memory(self) -> bool:
        """Whether values may share memory; False if the device declares a memory checker."""
    @property
    def has_arena(self) -> bool:
        """Plans use one arena if memory is addressable and shared; otherwise they use buffers."""
    @property
    def alignment(self) -> int:
        """The alignment of every value in an arena, in bytes; at least 64."""
    @property
    def is_host(self) -> bool:
        """Whether this is the host device; NumPy reads its memory directly."""
    def synchronize(self) -> None: ...
    @property
    def arrays(self) -> Any:
        """The object passed to `set_arrays`, or None."""
    def set_arrays(self, arrays: object) -> None:
        """Set the `opwright.device.DeviceArrays` that creates arrays for Python kernels, once."""
    def holds(self, array: object) -> bool:
        """Return whether an array declares this device; False for the host and ndarrays.

        An array without DLPack that has the attribute defined by the device's arrays counts as on
        any device of this type.
        """

def host_device() -> Device:
    """Return the host device, named "cpu"."""

def free_retired() -> None:
    """Free unused objects that only their plugin can free.

    Every call that runs a plan, allocates, copies or waits first frees these objects. Within a
    plugin, such as inside a Python kernel, this has no effect.
    """

def find_python_device(source: object, number: int) -> Device | None:
    """Return the open device with this number that an object provided, or None."""

def make_python_device(
    obj: object, number: int = 0, source: object = None, origin: str = ""
) -> Device:
    """Wrap a device written in Python, an `opwright.device.PythonDevice`.

    `source` is the provider, or None for the class itself. If its device with this number is
    already open, that device is returned.
    """

class _Exchange(Protocol):
    """The exchange interfaces of tensors and variables. This class does not exist at run time."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

@final
class Tensor(_Exchange):
    """A typed array on a device, without copy semantics; immutable metadata.

    On a device whose arrays have an `interface`, a tensor also has the attribute of that name, from
    which other libraries get its address. Arrays that are created from a tensor keep it alive, and
    all work on the tensor is complete.
    """

    @staticmethod
    def from_numpy(array: ArrayLike, device: Device | None = None) -> Tensor:
        """Copy an array to a device (None: the host)."""
    @staticmethod
    def from_array(array: object, device: Device, who: str = "Tensor.from_array") -> Tensor:
        """Return an array on this device as a tensor, without a copy.

        The tensor keeps the array alive; the library of the array orders the device's stream after
        its own work. Raises FeedError, with `who` as prefix, if the array is not contiguous or is
        on another device.
        """
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def opened_device(self) -> Device: ...
    @property
    def data_ptr(self) -> int:
        """The address or handle; 0 for a tensor without elements."""
    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a copy on the host."""

@final
class ScopeVariable(_Exchange):
    """A named variable of a scope, which is empty until it is set."""

    @property
    def name(self) -> str: ...
    @property
    def is_set(self) -> bool: ...
    @property
    def shape(self) -> tuple[int, ...] | None: ...
    @property
    def dtype(self) -> str | None: ...
    @property
    def device(self) -> str | None: ...
    @property
    def opened_device(self) -> Device | None: ...
    @property
    def version(self) -> int:
        """Incremented by every writer: `set`, and each run of a plan that writes the variable."""
    def touch(self) -> None:
        """Increment `version`; call this after writing to the borrowed memory.

        Values computed only from parameters, or packed for kernels, are recomputed by the next run.
        """
    def set(self, array: ArrayLike, device: Device | None = None) -> None:
        """Copy an array into the variable, keeping the array's dtype.

        With the same shape, dtype and device, the variable is written in place, unless it borrows
        read-only memory; otherwise the tensor is replaced and the `structure_version` of the scope
        is incremented. If `device` is None, the variable stays on its current device, or is on the
        host if it was empty. An array of another library on that device is copied within the
        device; a Tensor or a variable from elsewhere is copied through the host, and another
        library's array from elsewhere raises FeedError.
        """
    def borrow(self, array: object) -> None:
        """Borrow the memory of an array without a copy; increments the scope's `structure_version`.

        Writes to the variable are writes to the array, and vice versa. After a write to the array,
        call `touch`. The array, a NumPy array or a host array with ``__dlpack__``, stays alive
        until the variable is set to a different shape or dtype, borrows again or is erased, and no
        plan uses the memory any more. The array's library must not move this memory meanwhile. A
        read-only array may be borrowed; a plan that writes the variable then fails before its first
        step.

        Raises FeedError for an array that is not contiguous, aligned and of native byte order.
        """
    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a copy on the host; VariableNotFoundError when not set."""
    def tensor(self) -> Tensor:
        """Return the tensor itself without a copy; VariableNotFoundError when not set."""

@final
class Scope:
    """Maps names to variables, and can have a parent; thread-safe."""

    def __init__(self, parent: Scope | None = None) -> None: ...
    @property
    def parent(self) -> Scope | None: ...
    @property
    def structure_version(self) -> int:
        """A counter of the whole tree, incremented if a variable is created, replaced or erased."""
    def var(self, name: str) -> ScopeVariable:
        """Return this scope's own variable; an empty variable is created if it does not exist."""
    def find_var(self, name: str) -> ScopeVariable | None:
        """Search this scope, then its parents."""
    def set_all(self, arrays: Mapping[str, ArrayLike]) -> None:
        """Copy arrays into this scope's own variables, on their current devices or the host.

        All memory is allocated before variables change, so an OutOfMemoryError leaves them
        unchanged.
        """
    def new_scope(self) -> Scope: ...
    def names(self) -> list[str]:
        """Return the names of this scope's own variables, sorted."""
    def erase(self, name: str) -> None:
        """Remove one of this scope's own variables; VariableNotFoundError if it does not exist."""

def find_lent(array: object) -> np.ndarray[Any, Any] | None:
    """Return an ndarray, with any strides, that views another library's array and keeps it alive.

    Returns None if the library exports arrays only through ``__dlpack__`` (see `EagerOperator`), or
    if the array requires a gradient outside a `detach_guard`.
    """

@final
class detach_guard:  # noqa: N801 - as the other guards
    """While it is entered, arrays that require a gradient are read as their ``detach()``.

    Outside the guard such arrays are refused, because their library does not track the gradient
    through opwright. The guard is reusable and reentrant; it affects only the entering thread.
    """

    def __init__(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *raised: object) -> None: ...

def read_message(
    data: bytes, schema: Mapping[int, tuple[str, str, bool, object]]
) -> dict[str, Any]:
    """Return the fields of a protobuf message that are set, by name; fields without a name are
    skipped.

    `schema` maps each field number to the name; the kind, one of int32 (i), int64 (I), uint64 (u),
    bool (b), float (g), double (d), string (s), bytes (y), fixed32 (f) and message (m); whether the
    field is repeated, which gives a list; and for messages the schema, nested at most 100 deep.

    Raises ValueError for bytes that end within a field, a field of a different type, a repeated
    single field, a number that is too large, and strings that are not UTF-8.
    """

def read_host_array(array: object, who: str) -> np.ndarray[Any, Any]:
    """Return a host array with ``__dlpack__`` as an ndarray that keeps it alive, without a copy.

    Messages of FeedError and DtypeError begin with `who` or ``dtype:``; errors of the array's
    library are not changed.
    """

def give_like(result: Any, like: object) -> Any:
    """Return an ndarray, or a tuple of them, as arrays of the library of `like`, without a copy.

    Returns None if that library lacks the DLPack C exchange API.
    """

@final
class Resizer:
    """Represents a dynamic output in a Python kernel; invalid after the call."""

    def resize(self, shape: Sequence[int]) -> np.ndarray[Any, Any]:
        """Set the shape of the output and return the array to write; the last call counts."""
