"""What is asked of `lower`: operators, the metas of everything given, and where it shall run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from opwright.describe.meta import Meta
from opwright.lowering.graph.values import External, Role
from opwright.plugins.threads import count_for_plan, is_deterministic
from opwright.registry import HOST_DEVICE, join_device

if TYPE_CHECKING:
    from opwright.plugins.context import Context
    from opwright.program import Operator, Program


@dataclass(frozen=True, slots=True)
class LowerRequest:
    """Everything that decides a plan.

    Attributes
    ----------
    ops : sequence of Operator
    context : Context
        Registries, pins and prepared kernels.
    given : mapping of str to Meta
        Feeds, or what a body captures from its outer block.
    persistables : mapping of str to Meta
        What the scope holds of the names that the operators read or write there.
    lasting : frozenset of str
        Names that live on in the scope when an operator writes them.
    fetches : sequence of str
        Names whose last value is wanted, in order; one may stand twice.
    stores : sequence of str
        Given names that are copied into persistables of the scope first.
    advance_step : bool
        The plan raises ``@step`` at its end although none of ``ops`` reads it.
    given_role : Role
        FEED for a network, CAPTURED for a body or the rest of a cut graph.
    fetch_role : Role or None
        FETCH for a network, CAPTURED for a branch, which writes into the outer plan; None for the
        body of a loop, whose results stay its own until the next turn has read them.
    device : str
        Device type the plan runs on: kernels and passes go by it.
    device_number : int
        Which of the devices of that type.
    fallback : str or None
        "cpu" allows an operator without a kernel to run on the host.
    takes_fallback : bool
        Whether who asks could give a fallback: the error for a missing kernel then says so.
    passes : tuple of str or None
        Names of the passes to run, or of those to leave out, as ``"-name"``; None runs all.
    fetch_device : bool
        Fetches stay on the device instead of being copied to the host.
    device_feeds : frozenset[str]
        Feeds that lie on the plan's device; the others come from the host.
    copies_feeds : bool
        Feeds on the device are copied into the plan's memory first, so that what follows can be
        recorded as a graph once; otherwise kernels read them where they lie.
    keep_all : bool
        Every written variable stays in the scope (``Network.run``).
    program : Program or None
        Whose blocks and seed the operators refer to.
    first_index : int
        Index of the first operator in its network, for messages.
    options : tuple of (str, value) or None
        The options that differ from their defaults, sorted; by default those of the context.
    deterministic : bool
        Results must not depend on the number of threads: kernels that say that two runs may differ
        are left out. By default what the environment says.
    n_threads : int
        Threads that kernels are prepared for; by default (0) what `deterministic` asks for, the
        fixed number or those of the process. A short plan takes one.
    """

    ops: Sequence[Operator]
    context: Context
    given: Mapping[str, Meta] = field(default_factory=dict)
    persistables: Mapping[str, Meta] = field(default_factory=dict)
    lasting: frozenset[str] = frozenset()
    fetches: Sequence[str] = ()
    stores: Sequence[str] = ()
    advance_step: bool = False
    given_role: Role = Role.FEED
    fetch_role: Role | None = Role.FETCH
    device: str = "cpu"
    device_number: int = 0
    fallback: str | None = None
    takes_fallback: bool = True
    passes: tuple[str, ...] | None = None
    fetch_device: bool = False
    device_feeds: frozenset[str] = frozenset()
    copies_feeds: bool = True
    keep_all: bool = False
    program: Program | None = None
    first_index: int = 0
    options: tuple[tuple[str, Any], ...] | None = None
    deterministic: bool = field(default_factory=is_deterministic)
    n_threads: int = 0

    def __post_init__(self) -> None:
        if self.n_threads == 0:
            object.__setattr__(self, "n_threads", count_for_plan(self.deterministic))
        if self.options is None:
            chosen = tuple(self.context.chosen_options.items())
            object.__setattr__(self, "options", chosen)

    def rest(
        self,
        ops: Sequence[Operator],
        given: Mapping[str, Meta],
        persistables: Mapping[str, Meta],
        stores: Sequence[str],
        first_index: int,
        advance_step: bool,
    ) -> LowerRequest:
        """The request for the operators after a dynamic one, with its values captured."""
        return replace(
            self,
            ops=ops,
            given=given,
            persistables=persistables,
            stores=stores,
            first_index=first_index,
            advance_step=advance_step,
            given_role=Role.CAPTURED,
        )

    def given_external(self, name: str, meta: Meta) -> External:
        """The memory of a given value: captured values are at hand, feeds where they came from."""
        from_host = self.given_role is Role.FEED and name not in self.device_feeds
        return External(self.given_role, name, meta, self._host if from_host else None)

    def copies_given(self, external: External) -> bool:
        """Whether a given value is copied into the plan's memory before anything else is done."""
        if external.device is not None:
            return True
        return self.reads_device_feed(external) and self.copies_feeds

    def reads_device_feed(self, external: External | None) -> bool:
        """Whether that memory is a feed on the plan's device."""
        is_feed = external is not None and external.role is Role.FEED
        return is_feed and external is not None and external.name in self.device_feeds

    def fetch_external(self, role: Role, name: str, meta: Meta) -> External:
        """The memory that a fetched value is wanted in: on the host, or where a body writes."""
        return External(role, name, meta, self._host if role is Role.FETCH else None)

    @property
    def device_name(self) -> str:
        """Type and number of the device, as users write and read it: ``"cuda:1"``."""
        return join_device(self.device, self.device_number)

    @property
    def keeps_fetches(self) -> bool:
        """Whether fetches are left where they are, for the runtime to hand out as tensors."""
        return self.fetch_device and self.device != HOST_DEVICE

    @property
    def _host(self) -> str | None:
        """The host's name where the plan runs elsewhere; None means the plan's own device."""
        return None if self.device == HOST_DEVICE else HOST_DEVICE

    def body(
        self,
        ops: Sequence[Operator],
        given: Mapping[str, Meta],
        fetches: Sequence[str],
        fetch_role: Role | None,
    ) -> LowerRequest:
        """The request for the block of a control-flow operator."""
        return replace(
            self,
            ops=ops,
            given=given,
            fetches=fetches,
            stores=(),
            advance_step=False,
            given_role=Role.CAPTURED,
            fetch_role=fetch_role,
            persistables={},
            lasting=frozenset(),
            keep_all=False,
            first_index=0,
        )
