"""The request for a plan, with operators, given values, persistables, fetches and the target."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from opwright.context.context import Context
from opwright.context.threads import count_for_plan, is_deterministic
from opwright.describe.dtypes import Array
from opwright.describe.meta import Meta
from opwright.lowering.graph.signature import Sizes, SlotMetas
from opwright.lowering.graph.values import External, Role
from opwright.program import Operator, Program
from opwright.records import NamedTuple
from opwright.registry import HOST, HOST_DEVICE, DeviceName, KernelEntry, PassEntry

if TYPE_CHECKING:
    from opwright.lowering.layout.recording import Recorder
    from opwright.lowering.lock import Lock

_NO_METAS: Final[Mapping[str, Meta]] = MappingProxyType({})


class Target:
    """Describes where and how a plan runs, which determines its kernels.

    Attributes
    ----------
    context : Context
        Registries, pins, settings and prepared kernels.
    device : DeviceName
    fallback : str or None
        ``"cpu"`` runs operators without a kernel on the host.
    takes_fallback : bool
        Whether the caller offers this argument, for error messages.
    passes : tuple of str or None
        Passes to run, or, with ``"-"``, to exclude; None runs all.
    options : tuple of (str, value)
        The options that differ from their defaults, sorted; by default the context's.
    deterministic : bool
        Whether results must not depend on the number of threads; excludes kernels that declare
        that two runs may differ.
    n_threads : int
        Threads that kernels are prepared for; by default (0), the fixed number if `deterministic`,
        otherwise the number of the process. A short plan uses one thread.
    lock : Lock or None
        The only kernels that may be chosen; `passes` are then its passes.
    chosen_kernels : dict of KernelEntry to bool
        The kernels chosen for all plans of one callable, with bodies and continuations, and whether
        a pin prefers another library. A kernel counts even if a pass replaces its operator later:
        passes depend on whether there is a kernel.
    chosen_passes : dict of PassEntry to None
        The passes that such plans run, in order.
    last_short : list of bool
        Whether the last plan of the callable was short; empty before the first plan.
    recorder : Recorder or None
        Replaces plan builders to record plans for a bundle.
    inferred : dict
        The outputs of the plan lowered last, and their sizes in bytes, by the key of a signature
        and the definition, so values without feeds, such as updates, are not inferred again.
    """

    def __init__(
        self,
        context: Context,
        device: DeviceName = HOST,
        fallback: str | None = None,
        takes_fallback: bool = True,
        passes: tuple[str, ...] | None = None,
        options: tuple[tuple[str, Any], ...] | None = None,
        deterministic: bool | None = None,
        n_threads: int = 0,
        lock: Lock | None = None,
    ) -> None:
        self.context = context
        self.device = device
        self.fallback = fallback
        self.takes_fallback = takes_fallback
        self.passes = passes
        self.options = tuple(context.chosen_options.items()) if options is None else options
        self.deterministic = is_deterministic() if deterministic is None else deterministic
        self.n_threads = n_threads or count_for_plan(self.deterministic)
        self.lock = lock
        self.chosen_kernels: dict[KernelEntry, bool] = {}
        self.chosen_passes: dict[PassEntry, None] = {}
        self.last_short: list[bool] = []
        self.recorder: Recorder | None = None
        self.inferred: dict[Hashable, tuple[SlotMetas, Sizes]] = {}

    def with_threads(self, n_threads: int) -> Target:
        """Return this target, with its choices, for a different number of threads."""
        if n_threads == self.n_threads:
            return self
        twin = object.__new__(Target)
        vars(twin).update(vars(self), n_threads=n_threads)
        return twin

    def candidates(self, op_type: str, device: str, dtype: str) -> tuple[KernelEntry, ...]:
        """Return the suitable kernels that the lock allows, best first."""
        entries = self.context.candidates(op_type, device, dtype)
        return entries if self.lock is None else self.lock.select(entries)

    @property
    def host(self) -> str | None:
        """The device type of the host, or None (the plan's own device) if the plan runs there."""
        return None if self.device.is_host else HOST_DEVICE


class Given(NamedTuple):
    """Values from the caller: feeds, or the variables that a body captures."""

    metas: Mapping[str, Meta] = _NO_METAS
    role: Role = Role.FEED  # CAPTURED for a body or the rest of a cut graph
    on_device: frozenset[str] = frozenset()  # feeds on the plan's device, not the host
    # Whether feeds on the device are copied into the plan's memory, so that the device can record
    # the other steps as a graph; otherwise kernels read the feeds directly.
    copied: bool = True
    # Known elements of given values, from which shape operands are computed.
    numbers: Mapping[str, Array] = MappingProxyType({})
    # Feeds of the second plan of a cut graph, each with the variable that has its shape.
    late: Mapping[str, str] = MappingProxyType({})
    written: frozenset[str] = frozenset()  # feeds that the plan writes in place
    shape_only: frozenset[str] = frozenset()  # feeds that have no elements

    def external(self, name: str, meta: Meta, host: str | None) -> External:
        """Return the memory of a value."""
        from_host = self.role is Role.FEED and name not in self.on_device
        device = host if from_host else None
        return External(self.role, name, meta, device, lasts=name in self.written)

    def copies(self, external: External) -> bool:
        """Whether a value is copied into the plan's memory first."""
        return external.device is not None or (self.copied and self.is_device_feed(external))

    def is_device_feed(self, external: External | None) -> bool:
        """Whether an external is a feed on the device of the plan."""
        if external is None or external.role is not Role.FEED:
            return False
        return external.name in self.on_device


class Persistables(NamedTuple):
    """The variables of the scope that a plan reads and writes."""

    metas: Mapping[str, Meta] = _NO_METAS  # metas of existing variables
    lasting: frozenset[str] = frozenset()  # names that are written to the scope
    keep_all: bool = False  # every written name is written to the scope (``Network.run``)
    stores: Sequence[str] = ()  # given names that are copied into the scope first
    varying: frozenset[str] = frozenset()  # values that depend only on these are not kept


class Fetches(NamedTuple):
    """The results of a plan."""

    names: Sequence[str] = ()  # their last values are fetched, in order; may repeat
    # CAPTURED for a branch, which writes into the outer plan; None for the body of a loop, because
    # its results are needed until the next iteration has read them.
    role: Role | None = Role.FETCH
    on_device: bool = False  # results stay on the device, as tensors of the runtime
    stacked: Sequence[str] = ()  # values that iterations of a loop write to outer arrays
    carried: Sequence[str] = ()  # given values of a loop that need memory even if unread
    n_early: int = 0  # number of fetches that the first plan returns if the graph is cut into two


class LowerRequest(NamedTuple):
    """Everything that determines a plan."""

    ops: Sequence[Operator]  # consecutive operators of a network or block
    target: Target
    given: Given = Given()
    persistables: Persistables = Persistables()
    fetches: Fetches = Fetches()
    program: Program | None = None  # contains the blocks and the seed of the operators
    first_index: int = 0  # index of the first operator in its network, for messages
    advances_step: bool = False  # increments ``@step`` at the end even if no operator reads it


def result_name(position: int) -> str:
    """Return the buffer name of the body result at `position`."""
    return f"@result {position}"
