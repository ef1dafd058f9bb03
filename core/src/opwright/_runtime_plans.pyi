"""The part of `opwright._runtime` that creates, runs and measures plans. For type checkers.

This module does not exist at run time; ``_runtime.pyi`` re-exports its names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from opwright._runtime import Device, Scope
from opwright._runtime_kernels import Prepared

_Bindings = Sequence[tuple[int, int]]
"""Pairs (value of this plan, CAPTURED external of the child). Results are bound as well, so
the child writes them directly into the memory of the parent."""

@final
class PlanBuilder:
    """Collects the values and steps of one plan. Ids are consecutive ints from 0.

    With `checks`, host kernels fail if they leave an element of an output unwritten (CHECK_ALL), or
    change the shape or another field of an argument (CHECK_TENSORS). With ITEM_ALIGNED, values in
    the arena may be aligned only to their items, like feeds.
    """

    arena_bytes: int
    """Size of the arena on the plan's device."""

    def __init__(self, device: Device, name: str, *, checks: int = 0) -> None: ...
    def value(
        self,
        dtype_code: int,
        shape: Sequence[int],
        kind: int,
        index: int = 0,
        device: Device | None = None,
        strides: Sequence[int] | None = None,
    ) -> int:
        """Add a value. `index`: byte offset in the arena (or the number of the buffer) for ARENA,
        the external for EXTERNAL, unused for NONE and DYNAMIC. A DYNAMIC value, and no other, has
        one or more dims of -1. `strides` count elements (None: compact row-major).
        """
    def external(self, role: int, name: str, *, create: bool = False) -> int:
        """Add an external: memory that the plan does not own. The first value in the external
        determines its meta. A PERSISTABLE with `create` is created or replaced, and initialized to
        zero, in the scope of the run if it is missing or has a different meta.
        """
    def arena(self, size_bytes: int, device: Device | None = None) -> None:
        """Set the size of the arena on a device (None: the plan's device, as for `arena_bytes`)."""
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
        slots, `n_inputs` counts the *slots* that are inputs. The workspace is in the arena of
        `device` (on a device without offsets, `workspace_offset` is the number of a buffer). With
        `estimate_ns` 0, the estimate of the kernel is used.
        """
    def copy(self, src: int, dst: int, op_index: int = -1) -> None:
        """Add a copy between values of equal size, within a device or between two.
        A copy to the host waits until the data has arrived.
        """
    def end_constants(self) -> None:
        """Declare that earlier kernels read only unwritten persistables and each other's outputs.

        These kernels run only when such a persistable has changed; their outputs may be packed.
        """

    def feeds_read(self) -> None:
        """Add the step after which no feed on the plan's device is read; needed if such a feed
        exists.
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
        """Run the first child if the one-element bool `condition` is true, otherwise the second."""
    def loop(
        self,
        body: Plan,
        condition: int,
        carried: Sequence[tuple[int, int, int]],
        bindings: _Bindings,
        max_iterations: int = -1,
        op_index: int = -1,
        initial: int = -1,
        *,
        sequences: Sequence[tuple[int, int, int]] = (),
        stacks: Sequence[tuple[int, int, int]] = (),
        turns: int = -1,
        turns_taken: int = -1,
        reverse: bool = False,
    ) -> None:
        """Run `body` while a condition holds.

        `condition` is a value *of the body* that is read after each iteration (if it is -1, the
        body runs exactly `max_iterations` times); `initial` is a value of this plan that is read
        before the first iteration (-1: true). `carried` are (value of this plan, external of the
        body that reads it, value of the body with its next content). The value of this plan
        contains the initial value before the loop, and the result after it. Without a limit,
        `max_iterations` is -1. A loop that reaches its limit while the condition holds fails.

        `sequences` and `stacks` are arrays, given as (value of this plan, external of the body for
        one element, byte offset of the first element). Each array has `max_iterations` elements
        along axis 0 from this offset on; each iteration reads or writes one element, in order or in
        `reverse`. The value of a stack that is not read is -1. `turns` is a value of this plan with
        the number of iterations to run, and `turns_taken` a value that receives the number of
        iterations that ran.
        """
    def continuation(
        self,
        dynamic_values: Sequence[int],
        resolve: Callable[[tuple[tuple[int, ...], ...]], Plan],
        bindings: Sequence[tuple[int, str]],
    ) -> None:
        """End the plan: `resolve` maps the shapes found for `dynamic_values` to the next plan,
        whose CAPTURED externals are bound by name to values of this plan. The 8 most recently used
        next plans are kept. Only the last plan of a chain has fetches, and a child plan has no
        continuation.
        """
    def writes(self, names: Sequence[str]) -> None:
        """Name the persistables that the plan writes; each run increments their version."""
    def fetch(self, value: int) -> None:
        """Add a fetched value; a value on a FETCH external is written directly to the result."""
    def build(self, describe: object, kernel_bytes: int = 0) -> Plan:
        """Check and build the plan; the builder is empty afterwards.

        For a step that failed, ``describe.fail(op_index, message, cause)`` creates the exception:
        `message` is the message of the kernel or the runtime, and `cause` the exception of a Python
        kernel or None. ``describe.fail_bind`` creates the exception if a kernel could not be bound,
        before any step has run. `describe` must not reference the plan.
        """

@final
class Plan:
    """Immutable steps and memory layout, with a small pool of instances; safe for any thread."""

    @property
    def name(self) -> str: ...
    @property
    def n_steps(self) -> int:
        """The number of steps of this plan, including structural steps."""
    @property
    def python_steps(self) -> int:
        """The number of kernel steps that run Python, including steps of children."""
    @property
    def arena_bytes(self) -> int:
        """The bytes of one instance: arenas and buffers on all devices, including children."""
    @property
    def held_bytes(self) -> int:
        """The approximate bytes of the plan and its kernels, without the memory of its runs."""
    @property
    def instances(self) -> int:
        """The number of instances that exist now, idle or running."""
    @property
    def graphs(self) -> int:
        """The number of times that an instance has recorded its steps as a device graph."""
    @property
    def capture_refusal(self) -> str:
        """Why the steps are launched individually; empty if the device replays them as a graph."""
    @property
    def feed_names(self) -> list[str]: ...
    @property
    def describe(self) -> Any:
        """The object passed to `PlanBuilder.build` as `describe`."""
    def run(self, scope: Scope | None = None) -> None:
        """Run a plan that has no feeds; fetches are dropped."""
    def direct_entry(self) -> tuple[int, int]:
        """Return the addresses of a function and of this plan, for native code of other frameworks.

        ``int32_t run(const void* plan, void* const* feeds, void* const* results, char* message,
        uint64_t message_bytes)`` runs the plan, from any thread and without the GIL, and returns 0
        on success. Feeds and results are addresses of arrays with the metas of the plan, in the
        order of `feed_names` and of the fetches. The caller keeps the plan alive. Raises
        ProgramError for a plan with variables, written feeds or unknown shapes, or on a device with
        streams, such as CUDA.
        """
    def time_steps(
        self,
        feeds: Sequence[Any],
        scope: Scope | None,
        n: int,
        n_warmup: int,
        fetch_device: bool = False,
    ) -> tuple[list[int], list[int], Any]:
        """Run the plan unchanged `n_warmup` + `n` times, alternating with as many runs in which
        each step is timed.

        `feeds` are ready arrays, in the order of `feed_names`. Both kinds of runs write to `scope`.
        All devices are idle at each clock reading, and timed runs replay nothing as a graph.

        Returns the durations in ns of the unchanged runs, then of the timed runs, and a node. A
        node has the plan, its kernel, copy and child steps as ``(op_index, is_copy, runs_ns,
        n_calls, children)``, a dict from dynamic values to their shapes, and the nodes of the next
        plans. `runs_ns` has an item for each run that reached the step, without the clock's
        overhead.
        """

@final
class Epoch:
    """A counter that is incremented when existing plans may be outdated."""

    def __init__(self) -> None: ...
    @property
    def now(self) -> int: ...
    def advance(self) -> None: ...

def describe_processor() -> str:
    """Return the name and features of the processor, which affect the choice of kernels."""

def advance_epochs() -> None:
    """Advance every epoch of the process."""

@final
class Plans:
    """The plans of one owner, in the table of the process.

    The table keeps the most recently used plans, at most 4,096 and 48 MiB in total, and in addition
    the last plan of each owner. With `keeps_last`, the memory of that plan is kept, too. A plan is
    found only in the epoch in which its lowering began.
    """

    def __init__(self, label: str, keeps_last: bool = True) -> None: ...
    def find(self, key: Any, /) -> Any:
        """Return the lowered plan that was added with an equal key, or None."""
    def add(self, key: Any, epoch: Epoch, made_at: int, lowered: Any, /) -> Any:
        """Keep a lowered plan, an object with ``plan``, while the epoch is `made_at`."""
    def clear(self) -> None:
        """Drop the plans; running plans continue."""
    @property
    def last(self) -> Any:
        """The lowered plan that was used last, or None."""
    def __len__(self) -> int: ...

def describe_plans() -> list[tuple[str, int, int, int]]:
    """Return each owner, the number and size of its plans, and the size of idle instances."""

def release_plans(all: bool) -> None:
    """Drop all plans except the last plan of each owner; with `all`, drop the last plans, too."""

def packed_bytes() -> int:
    """Return the size in bytes of the packed copies of variables, which plans share."""

def kept_host_bytes() -> int:
    """Return the size in bytes of freed host blocks that are kept for later requests."""

def free_kept_host() -> int:
    """Release the kept host blocks to the system; return their size in bytes."""

@final
class Bundle:
    """An open bundle: the plans and weights of a file, and its open libraries.

    Raises FormatError for a damaged or foreign file, and PluginError for a library that is missing,
    has a different version, or cannot be opened. With `check`, the checksums of the weights are
    verified.
    """

    def __init__(
        self, path: str | bytes, folders: Sequence[str | bytes] = (), check: bool = False
    ) -> None: ...
    @property
    def inputs(self) -> list[tuple[str, str, tuple[tuple[int, int], ...]]]:
        """Name, dtype and dims; a dim is ``step * n + base`` for a batch of n."""

    @property
    def outputs(self) -> list[tuple[str, str, tuple[tuple[int, int], ...]]]: ...
    @property
    def batch(self) -> tuple[int, int]: ...
    def new_scope(self) -> Scope:
        """Return a scope with copies of the variables that runs write, and the weights."""

    def plan_for(self, arrays: tuple[Any, ...], n_threads: int) -> Plan:
        """Return the plan for arrays, in the order of the inputs; FeedError if no plan fits."""
