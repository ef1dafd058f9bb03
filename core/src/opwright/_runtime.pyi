"""The C++ runtime: tensors, scopes, prepared kernels, plans and the callables that run them.

Everywhere below, a *dtype code* is DLPack's type as one int, ``code | bits << 8 | lanes << 16``
(`opwright.dtypes.dtype_to_code`), a *shape* is a tuple of ints, and the kinds and roles are the int
constants of this module. Errors are classes of `opwright.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final, Protocol, final

import numpy as np
from numpy.typing import ArrayLike

from opwright._runtime_kernels import ARG_DYNAMIC as ARG_DYNAMIC
from opwright._runtime_kernels import ARG_PACKABLE as ARG_PACKABLE
from opwright._runtime_kernels import ARG_SHAPE_ONLY as ARG_SHAPE_ONLY
from opwright._runtime_kernels import KERNEL_CAPTURABLE as KERNEL_CAPTURABLE
from opwright._runtime_kernels import KERNEL_NONDETERMINISTIC as KERNEL_NONDETERMINISTIC
from opwright._runtime_kernels import KERNEL_STRIDED as KERNEL_STRIDED
from opwright._runtime_kernels import Library as Library
from opwright._runtime_kernels import Prepared as Prepared
from opwright._runtime_kernels import RefusedError as RefusedError
from opwright._runtime_kernels import prepare_native as prepare_native
from opwright._runtime_kernels import prepare_python as prepare_python

ARENA: Final = 0
EXTERNAL: Final = 1
NONE: Final = 2
DYNAMIC: Final = 3

FEED: Final = 0
FETCH: Final = 1
PERSISTABLE: Final = 2
CAPTURED: Final = 3

ABI_VERSION: Final[tuple[int, int]]

@final
class Device:
    """A place where tensors live and kernels run. Two are the same if they are one object."""

    @property
    def name(self) -> str: ...
    @property
    def dlpack_code(self) -> int: ...
    @property
    def addressable(self) -> bool:
        """Pointers may be offset."""
    @property
    def shares_memory(self) -> bool:
        """Values may share memory; not where the device says that a memory checker watches."""
    @property
    def has_arena(self) -> bool:
        """One arena serves a plan: addressable, and memory is shared. Otherwise it has buffers."""
    @property
    def alignment(self) -> int:
        """Of every value in an arena, in bytes; at least 64."""
    @property
    def is_host(self) -> bool:
        """The host device, whose memory NumPy reads directly."""
    def synchronize(self) -> None: ...
    @property
    def has_arrays(self) -> bool: ...
    def set_arrays(self, arrays: object) -> None:
        """Give what makes arrays for Python kernels, an `opwright.devices.DeviceArrays`; once."""
    def holds(self, array: object) -> bool:
        """Tell whether an array says that it lies here; False for the host and for ndarrays."""

def host_device() -> Device:
    """Return the one host device, named "cpu"."""

def make_python_device(obj: object, number: int = 0) -> Device:
    """Wrap a device written in Python, an `opwright.devices.PythonDevice`."""

class _Exchange(Protocol):
    """What tensors and variables have for other libraries; no class of the module."""

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
    """A typed array on a device, without copy semantics of its own; immutable metadata."""

    @staticmethod
    def from_numpy(array: ArrayLike, device: Device | None = None) -> Tensor:
        """Copy an array to a device (None: the host)."""
    @staticmethod
    def from_dlpack(array: object, device: Device, who: str = "Tensor.from_dlpack") -> Tensor:
        """Return an array that lies on this device as a tensor, without a copy.

        The tensor keeps the array; the array's library lets our stream wait for what it does with
        it. FeedError, beginning with `who`, where it is not contiguous or lies elsewhere.
        """
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def data_ptr(self) -> int:
        """The address or handle; 0 for a tensor without elements."""
    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a copy on the host."""

@final
class ScopeVariable(_Exchange):
    """A named place of a scope; empty until it is set."""

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
    def version(self) -> int:
        """Raised by every writer: `set`, and each run of a plan that writes the variable."""
    def set(self, array: ArrayLike, device: Device | None = None) -> None:
        """Copy an array in, keeping its dtype.

        With the same shape, dtype and device it is written in place; otherwise the tensor is
        replaced and the scope's `structure_version` rises. `device` None: where it lives now, the
        host for an empty one. An array of another library that lies on that device is copied
        within it; a Tensor or a variable goes over the host from anywhere else, and another
        library's array is a FeedError then.
        """
    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a copy on the host; VariableNotFoundError when not set."""
    def tensor(self) -> Tensor:
        """Return the tensor itself, no copy; VariableNotFoundError when not set."""

@final
class Scope:
    """Names to variables, with a parent; safe to use from several threads."""

    def __init__(self, parent: Scope | None = None) -> None: ...
    @property
    def parent(self) -> Scope | None: ...
    @property
    def structure_version(self) -> int:
        """One number for the whole tree, raised when a variable is created, replaced or erased."""
    def var(self, name: str) -> ScopeVariable:
        """Return this scope's own variable, made empty where there is none."""
    def find_var(self, name: str) -> ScopeVariable | None:
        """Look here, then in the parents."""
    def new_scope(self) -> Scope: ...
    def names(self) -> list[str]:
        """Return the names of this scope's own variables, sorted."""
    def erase(self, name: str) -> None:
        """Remove an own variable; VariableNotFoundError if there is none."""

@final
class Resizer:
    """Stands for a dynamic output in a Python kernel; dead after the call."""

    def resize(self, shape: Sequence[int]) -> np.ndarray[Any, Any]:
        """Give the output its shape and return the array to write. The last call counts."""

_Bindings = Sequence[tuple[int, int]]
"""((value of this plan, CAPTURED external of the child), ...); for results too: the child writes
straight into the parent's memory."""

@final
class PlanBuilder:
    """Collects the values and steps of one plan. Ids are ints counted from 0."""

    arena_bytes: int
    """Size of the arena on the plan's device."""

    def __init__(self, device: Device, name: str) -> None: ...
    def value(
        self,
        dtype_code: int,
        shape: Sequence[int],
        kind: int,
        index: int = 0,
        *,
        device: Device | None = None,
        strides: Sequence[int] | None = None,
    ) -> int:
        """Add a value. `index`: byte offset in the arena (or the number of the buffer) for ARENA,
        the external for EXTERNAL, unused for NONE and DYNAMIC. DYNAMIC values have at least one -1
        dim, the others none. `strides` count elements (None: compact row-major).
        """
    def external(self, role: int, name: str, *, create: bool = False) -> int:
        """Add memory that comes from outside. The first value on it fixes its meta. A PERSISTABLE
        with `create` is made, or replaced, in the run's own scope where it is missing or has
        another meta; its first content is zero.
        """
    def arena(self, size_bytes: int, device: Device | None = None) -> None:
        """Set the arena's size on a device (None: the plan's, like `arena_bytes`)."""
    def buffers(self, sizes: Sequence[int], device: Device | None = None) -> None:
        """Set the buffers of a device without an arena."""
    def kernel(
        self,
        prepared: Prepared,
        args: Sequence[int],
        slot_begin: Sequence[int],
        n_inputs: int,
        op_index: int,
        workspace_offset: int = -1,
        workspace_bytes: int = 0,
        estimate_ns: int = 0,
        device: Device | None = None,
    ) -> None:
        """Add a kernel step. `args` are values, `slot_begin` has one entry more than there are
        slots, `n_inputs` counts the *slots* that are inputs. The workspace lies in the arena of
        `device` (on a device without offsets: `workspace_offset` is the number of a buffer).
        `estimate_ns` 0 takes the kernel's own.
        """
    def copy(self, src: int, dst: int, op_index: int = -1) -> None:
        """Add a copy of equal size, within a device or between two. A copy to the host waits until
        the data is there.
        """
    def feeds_read(self) -> None:
        """Add the step behind which no feed on the plan's device is read; needed where there is
        one.
        """
    def sync(self, device: Device | None = None) -> None:
        """Wait for a device."""
    def call(self, plan: Plan, bindings: _Bindings, op_index: int = -1) -> None: ...
    def branch(
        self,
        condition: int,
        branches: tuple[tuple[Plan, _Bindings], tuple[Plan, _Bindings]],
        op_index: int = -1,
    ) -> None:
        """Run the first child when the one-element bool `condition` holds, else the second."""
    def loop(
        self,
        body: Plan,
        condition: int,
        carried: Sequence[tuple[int, int, int]],
        bindings: _Bindings,
        max_iterations: int = -1,
        op_index: int = -1,
        initial: int = -1,
    ) -> None:
        """Run `body` while a condition holds.

        `condition` is a value *of the body* read after each iteration (-1: none, then the body runs
        exactly `max_iterations` times); `initial` a value of this plan read before the first one
        (-1: true). `carried` are (value of this plan, external of the body that reads it, value of
        the body that is its next content): the value holds the start before and the result after.
        Without a limit `max_iterations` is -1; a loop that reaches its limit while the condition
        holds fails.
        """
    def continuation(
        self,
        dynamic_values: Sequence[int],
        resolve: Callable[[tuple[tuple[int, ...], ...]], Plan],
        bindings: Sequence[tuple[int, str]],
    ) -> None:
        """End the plan: `resolve` maps the shapes found for `dynamic_values` to the plan that goes
        on, whose CAPTURED externals are bound by name to values of this one. The last 8 plans are
        kept. Only the last plan of a chain has fetches, and a child plan has no continuation.
        """
    def writes(self, names: Sequence[str]) -> None:
        """Name the persistables that the plan writes; each run raises their version."""
    def fetch(self, value: int) -> None:
        """Add a fetched value; a value on a FETCH external is written straight into the result."""
    def build(self, describe: object) -> Plan:
        """Check everything and make the plan; the builder is empty afterwards.

        For a step that failed, ``describe.fail(op_index, message, cause)`` makes the exception:
        `message` is the kernel's own or the runtime's, `cause` what a Python kernel raised or None.
        ``describe.fail_bind`` does so where a kernel could not be bound, before any step has run.
        `describe` must not hold the plan.
        """

@final
class Plan:
    """Immutable steps and memory layout, with a small pool of instances; safe for any thread."""

    @property
    def name(self) -> str: ...
    @property
    def n_steps(self) -> int:
        """Steps of this plan, structural ones included."""
    @property
    def python_steps(self) -> int:
        """Kernel steps that run Python, children included."""
    @property
    def arena_bytes(self) -> int:
        """Memory of one instance: arenas and buffers of all devices."""
    @property
    def instances(self) -> int:
        """Instances that exist now, idle or running."""
    @property
    def graphs(self) -> int:
        """How often an instance has recorded its steps as a graph of the device."""
    @property
    def capture_refusal(self) -> str:
        """Why the steps are launched one by one; empty where the device replays them as a graph."""
    def run(self, scope: Scope | None = None) -> None:
        """Run a plan that has no feeds; fetches are dropped."""

@final
class CompiledNetwork:
    """``f(**feeds) -> list`` of fresh arrays, or of Tensors with `fetch_device`.

    `resolve(feeds)` gets the keyword arguments as they were given and returns the plan and, in the
    order of `feed_names`, arrays that are ready as they are: exact ndarrays, C-contiguous, aligned,
    of native byte order; or Tensors on `device`, for a plan that was made for such. It is called
    when no known plan fits the feeds or the scope, and must raise when the names are wrong. Up to 8
    plans are kept. The call ends when the memory of another library has been read.
    """

    fetch_device: bool

    def __init__(
        self,
        scope: Scope,
        feed_names: Sequence[str],
        resolve: Callable[[dict[str, Any]], tuple[Plan, Sequence[Any]]],
        device: Device | None = None,
    ) -> None: ...
    def __call__(self, **feeds: Any) -> list[Any]: ...
    def clear(self) -> None:
        """Forget the plans; those that run go on."""
    @property
    def n_plans(self) -> int: ...
    @property
    def scope(self) -> Scope: ...
    @property
    def feed_names(self) -> tuple[str, ...]: ...

@final
class Namespace(ModuleType):
    """A module that looks a name up in its ``__table__`` first: (variable, key, dict).

    What the dict holds counts while the ContextVar holds the very object `key`; all else is found
    as in any module.
    """

@final
class EagerFunction:
    """What users call: ``f(*inputs, **inputs_and_attributes)``.

    Calls by position alone are completed from `defaults` and go to `call`, which takes every
    parameter by position; all others go to `bind` as they are.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        bind: Callable[..., Any],
        defaults: tuple[Any, ...],
        n_positional: int,
    ) -> None:
        """`defaults` of all parameters, of which the first `n_positional` may come by position."""
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class EagerOperator:
    """One operator on arrays: ``f(*inputs, *attributes)``, everything by position.

    Known combinations of dtypes, shapes and attributes run at once; for all others, and for
    anything but exact ndarrays that are ready as they are (lists or tuples of them where
    `duplicable` has the input's bit, None for an absent input), ``slow(*args)`` is called and its
    result returned. Attributes match by identity or by equality with the same types inside; floats
    by their bits.
    """

    def __init__(
        self, n_inputs: int, duplicable: int, slow: Callable[..., Any], n_outputs: int = 1
    ) -> None:
        """`n_outputs` 1: the first fetch is returned, otherwise a tuple of all fetches."""
    def __call__(self, *args: Any) -> Any: ...
    def insert(self, args: tuple[Any, ...], plan: Plan) -> None:
        """Remember a plan for the metas and attributes of `args`, whose inputs must be ready as
        they are. The plan's FEED externals are the present inputs in order, lists flattened. At
        most 256 are kept. Attributes other than None, bool, int, float, str and tuples or lists of
        them are not remembered.
        """
    def run(self, plan: Plan, arrays: Sequence[Any], fetch_device: bool = False, /) -> Any:
        """Run a plan on arrays that are ready as they are, or Tensors on its device, one for each
        FEED external. With `fetch_device` Tensors are returned.
        """
    def clear(self) -> None: ...
    @property
    def n_plans(self) -> int: ...
