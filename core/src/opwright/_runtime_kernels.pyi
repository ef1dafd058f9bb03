"""The part of `opwright._runtime` that prepares kernels, and opens compiled plugins. For type
checkers.

This module does not exist at run time; ``_runtime.pyi`` re-exports its names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, final

from opwright._runtime import Device

ARG_PACKABLE: Final = 1
ARG_SHAPE_ONLY: Final = 2
ARG_DYNAMIC: Final = 4
ARG_UNREAD: Final = 8
KERNEL_CAPTURABLE: Final = 1
KERNEL_NONDETERMINISTIC: Final = 2
KERNEL_STRIDED: Final = 4
KERNEL_BY_THREADS: Final = 16
KERNEL_BLOCKS: Final = 32

_Meta = tuple[tuple[int, ...], int]
"""(shape, dtype code)."""

_TypedAttrs = Sequence[tuple[str, int, object]]
"""(name, AttrType value, plain Python value) of each attribute that is not absent."""

class RefusedError(Exception):
    """Raised if a native kernel's prepare function refuses; the message is its reason."""

class UnsupportedError(RefusedError):
    """Raised if a native kernel's prepare function refuses because of this machine; the message
    names the missing feature.
    """

@final
class Prepared:
    """A kernel prepared for attributes and metas; immutable, and shared by plans and threads."""

    @property
    def workspace_bytes(self) -> int: ...
    @property
    def estimate_ns(self) -> int: ...
    @property
    def held_bytes(self) -> int:
        """The approximate size of generated code, tables and so on, as reported by the kernel."""
    @property
    def needs_gil(self) -> bool: ...
    @property
    def capturable(self) -> bool:
        """False if ``prepare`` has ruled out recording; for Python kernels, what was registered."""
    @property
    def n_threads(self) -> int:
        """The number of threads for which the kernel was prepared."""
    @property
    def packs(self) -> tuple[int, ...]:
        """The arguments that this kernel packs. In `PlanBuilder.kernel` each must be a persistable
        that the plan does not write.
        """

def prepare_python(
    function: Callable[..., object],
    positional: Sequence[int],
    keywords: Sequence[tuple[str, int]] = (),
    constants: Mapping[str, object] | None = None,
    *,
    duplicable: Collection[int] = (),
    bind: bool = False,
    packs: Mapping[int, Callable[[Any], object]] | None = None,
    n_threads: int = 1,
    capturable: bool = False,
    op_type: str = "",
) -> Prepared:
    """Prepare a Python kernel.

    Slots are numbered inputs first, then outputs. `positional` lists the slots passed by position,
    `keywords` the slots passed by name, and `constants` are passed to every call as keywords. An
    absent slot is passed as None, a slot in `duplicable` as a tuple of arrays (empty if absent),
    and a DYNAMIC output as a `Resizer`. Inputs are read-only arrays, outputs are written in place;
    all are valid during the call. A kernel that returns a new array fails, since it has not written
    to its output.

    With `bind`, ``function.bind`` is called instead, with the same arguments, once per instance and
    again whenever an array moves to other memory; its result is then called without arguments in
    each run. `packs` maps flat argument indices to functions of the array; the kernel gets their
    results instead of the array. `n_threads` is the number of threads for which it was prepared,
    and `op_type` the operator type in messages.
    """

@final
class Library:
    """A compiled plugin: an open shared library with tables that have been checked.

    The library stays open as long as this object, or any kernel that was prepared with it as
    `keep_alive`, exists. A file is opened only once, even if several paths lead to it.

    Raises
    ------
    PluginError
        If the file is not a shared library or is for another machine, lacks the entry function or
        has one for another ABI, or if that function fails, throws, or returns malformed tables.
    """

    def __init__(self, path: str) -> None: ...
    @property
    def path(self) -> str:
        """The path by which the file was first opened."""
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def abi_version(self) -> tuple[int, int]:
        """The version of the header that the library was built with."""
    @property
    def ops(self) -> tuple[tuple[str, bytes, str | None, tuple[str, ...], str | None, bool], ...]:
        """(type, OpProto, gradient type, slots its gradient needs, no-gradient reason, hidden)."""
    @property
    def kernels(self) -> tuple[tuple[Any, ...], ...]:
        """(address, operator type, device, dtype codes, library, priority, flags, may_reuse).

        A kernel without dtype codes supports every dtype. The flags are the KERNEL_
        constants.
        """
    def kernels_of(self, op_type: str, device: str, library: str) -> list[tuple[Any, ...]]:
        """Return the rows of `kernels` with this type, device and library name."""
    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices."""
    @property
    def dlpack_codes(self) -> tuple[int, ...]:
        """The DLDeviceType of each device."""
    def open_device(self, index: int, device_id: int = 0, origin: str = "") -> Device:
        """Return a device, which is opened if necessary; `origin` names its provider.

        Raises
        ------
        KernelError
            With the device's reason, or if there is none of this number.
        """
    def infer(
        self,
        op_index: int,
        inputs: Sequence[Sequence[_Meta]],
        attrs: _TypedAttrs,
        output_counts: Sequence[int],
    ) -> list[list[_Meta | None]]:
        """Return the metas of all outputs, slot by slot; unknown dimensions are -1.

        None stands for an output that the library did not set; with dtype code 0, the OpProto
        determines the dtype.

        Raises
        ------
        ShapeError
            With the operator's reason.
        """

def prepare_native(
    kernel_address: int,
    attrs: _TypedAttrs,
    inputs: Sequence[Sequence[_Meta]],
    outputs: Sequence[Sequence[_Meta]],
    n_threads: int = 1,
    *,
    arg_flags: Sequence[int] | None = None,
    device: Device | None = None,
    keep_alive: object = None,
    deterministic: bool = False,
) -> Prepared:
    """Call prepare of the `ow_kernel` at this address.

    `attrs` are (name, AttrType value, plain Python value); `inputs` and `outputs` hold the metas of
    each slot in OpProto order, an absent slot as (). `keep_alive` (the library) is kept as long as
    the result exists. With `deterministic`, `n_threads` is the same on every machine.

    Raises
    ------
    RefusedError
        With the kernel's reason.
    KernelError
        When prepare failed otherwise.
    """

def limit_threads(n_threads: int) -> None:
    """Limit kernel jobs to `n_threads`, even if they were prepared for more."""

def use_openmp(library: str) -> bool:
    """Run jobs of the calling thread on the OpenMP threads of a loaded library, from now on.

    A program that calls the library and plans alternately then has one thread pool. `library` is
    the path of a loaded library that is linked with OpenMP; for any other value, this has no effect
    and returns False.
    """
