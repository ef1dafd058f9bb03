"""The request for a plan: operators, their given values, persistables, fetches and the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opwright.describe.meta import Meta
from opwright.lowering.graph.values import External, Role
from opwright.lowering.lock import Choices, Lock
from opwright.plugins.context import Context
from opwright.plugins.threads import count_for_plan, is_deterministic
from opwright.program import Operator, Program
from opwright.registry import HOST, HOST_DEVICE, DeviceName, KernelEntry


@dataclass(frozen=True, slots=True)
class Target:
    """Where and how a plan runs, which decides its kernels.

    Two are equal if the choices of the user are. Context and number of threads do not count: they
    are in `Context.plan_key`.
    """

    context: Context = field(compare=False)  # registries, pins and prepared kernels
    device: DeviceName = HOST
    fallback: str | None = None  # "cpu" runs operators without a kernel on the host
    takes_fallback: bool = True  # whether the caller has this argument, for error messages
    passes: tuple[str, ...] | None = None  # those to run, or with "-" to exclude; None runs all
    # (Name, value) of those that differ from their defaults, sorted; by default the context's.
    options: tuple[tuple[str, Any], ...] | None = None
    # Whether results must not depend on the number of threads; excludes kernels that declare that
    # two runs may differ.
    deterministic: bool = field(default_factory=is_deterministic)
    # Threads that kernels are prepared for; 0: as `deterministic` requires, the fixed number or
    # that of the process. A short plan takes one.
    n_threads: int = field(default=0, compare=False)
    lock: Lock | None = None  # the only kernels that may be chosen; `passes` are then its passes
    choices: Choices = field(default_factory=Choices, compare=False)  # what was chosen

    def __post_init__(self) -> None:
        if self.n_threads == 0:
            object.__setattr__(self, "n_threads", count_for_plan(self.deterministic))
        if self.options is None:
            object.__setattr__(self, "options", tuple(self.context.chosen_options.items()))

    def candidates(self, op_type: str, device: str, dtype: str) -> tuple[KernelEntry, ...]:
        """Return the kernels that fit and that the lock allows, best first."""
        entries = self.context.candidates(op_type, device, dtype)
        return entries if self.lock is None else self.lock.select(entries)

    @property
    def host(self) -> str | None:
        """The host as a device of the plan; None, the plan's own device, if it runs there."""
        return None if self.device.is_host else HOST_DEVICE


@dataclass(frozen=True, slots=True)
class OpRange:
    """Consecutive operators of a network or block."""

    ops: Sequence[Operator]
    program: Program | None = None  # with the blocks and the seed of the operators
    first_index: int = 0  # of the first one in its network, for messages
    advances_step: bool = False  # raises ``@step`` after the last one even if none of them reads it


@dataclass(frozen=True, slots=True)
class Given:
    """Values from the caller: feeds, or the variables that a body captures."""

    metas: Mapping[str, Meta] = field(default_factory=dict)
    role: Role = Role.FEED  # CAPTURED for a body or the rest of a cut graph
    on_device: frozenset[str] = frozenset()  # feeds on the plan's device; others are on the host
    # Whether feeds on the device are copied into the plan's memory, so that the device can record
    # what follows as a graph; else kernels read them directly.
    copied: bool = True

    def external(self, name: str, host: str | None) -> External:
        """Return the memory of a value."""
        from_host = self.role is Role.FEED and name not in self.on_device
        return External(self.role, name, self.metas[name], host if from_host else None)

    def copies(self, external: External) -> bool:
        """Whether a value is copied into the plan's memory first."""
        return external.device is not None or (self.copied and self.is_device_feed(external))

    def is_device_feed(self, external: External | None) -> bool:
        """Whether that memory is a feed on the plan's device."""
        if external is None or external.role is not Role.FEED:
            return False
        return external.name in self.on_device


@dataclass(frozen=True, slots=True)
class Persistables:
    """The variables of the scope that a plan reads and writes."""

    metas: Mapping[str, Meta] = field(default_factory=dict)  # of those that exist
    lasting: frozenset[str] = frozenset()  # names that are written to the scope
    keep_all: bool = False  # every written name is written to the scope (``Network.run``)
    stores: Sequence[str] = ()  # given names that are copied into the scope first


@dataclass(frozen=True, slots=True)
class Fetches:
    """The results of a plan."""

    names: Sequence[str] = ()  # whose last value is fetched, in order; a name may occur twice
    # CAPTURED for a branch, which writes into the outer plan; None for the body of a loop, which
    # keeps its results until the next turn has read them.
    role: Role | None = Role.FETCH
    on_device: bool = False  # they stay on the device; the runtime returns them as tensors
    stacked: Sequence[str] = ()  # of a loop: what each turn writes into arrays of the outer plan
    carried: Sequence[str] = ()  # of a loop: given values that need memory even if it is not read


@dataclass(frozen=True, slots=True)
class LowerRequest:
    """Everything that decides a plan."""

    code: OpRange
    target: Target
    given: Given = Given()
    persistables: Persistables = Persistables()
    fetches: Fetches = Fetches()
