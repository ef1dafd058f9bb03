"""Runs the plan of one of many processes alone, and records computation and communication."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import numpy as np

import opwright as ow
from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright.rewriting import size_bytes
from opwright_dist import DistError, Engine, World, current_world, set_world
from opwright_dist.names import COLLECTIVES, PLAN_OPS, SHARD_OPS
from opwright_simulation.steps import Compute, Event, Start, Step, Wait

LIBRARY: Final = "rehearsal"
_PREFIX: Final = "dist."
_DEPENDS_ON_RANKS: Final = frozenset(
    {"all_gather", "reduce_scatter", "all_to_all", "exchange_rows", "own_part", "divided"}
)


class Rehearsal(Engine):
    """An engine that simulates the first of many processes without connecting them."""

    name = LIBRARY

    def __init__(self, size: int) -> None:
        self._size = size

    @classmethod
    def was_launched(cls) -> bool:
        """Return False, since there is no launcher."""
        return False

    @property
    def rank(self) -> int:
        """The rank of this process, 0."""
        return 0

    @property
    def size(self) -> int:
        """The simulated number of processes."""
        return self._size

    def add_group(self, name: str, ranks: Sequence[int]) -> None:
        """Do nothing, because no processes are connected."""

    def gather(self, data: bytes, group: str) -> list[bytes]:
        """Return the data of this process once for each simulated process."""
        return [data] * self._size

    def set_deadline(self, seconds: float) -> None:
        """Do nothing, since collectives never wait."""

    def describe(self) -> str:
        """Describe the simulated processes."""
        return f"{self._size} imagined processes"


class Rehearsed:
    """Writes zeros, or for ``dist.part`` the first of equal parts; refuses outside rehearsals."""

    @classmethod
    def prepare(cls, ctx: PrepareContext) -> Callable[..., None]:
        """Refuse outside a rehearsal."""
        if not isinstance(current_world().engine, Rehearsal):
            ctx.lack("a rehearsal of many processes, as in `opwright-simulate`")
        if ctx.op_type == "dist.part":
            own = ctx.inputs["rows"][0].shape[0]
            numbers = (0, own, own * current_world().group(ctx.attrs["group"]).size)
            return lambda rows, part, **_: np.copyto(part, numbers)
        n_inputs = len(ctx.inputs)
        return lambda *slots, **_: _write_zeros(slots[n_inputs:])


def _write_zeros(slots: Sequence[Any]) -> None:
    for slot in slots:
        for tensor in slot if isinstance(slot, list | tuple) else (slot,):
            tensor[...] = 0


def rehearse(
    program: ow.Program,
    feeds: Mapping[str, Any],
    fetches: Sequence[Any] = (),
    *,
    scope: ow.Scope | None = None,
    device: str = "cpu",
    runs: int = 30,
    examples: int | None = None,
) -> Callable[[int], Step]:
    """Measure the training step of one of many processes on this machine, without the others.

    The plan is the same as in a run with many processes, including buckets. Its collectives do not
    send data, but their starts and waits are recorded. opwright-kit must be installed.

    Parameters
    ----------
    program : Program
        A training step with collectives from `data_parallel`.
    feeds : mapping of str to array
        The batch of one process.
    fetches : sequence of str or Variable
        What a step fetches.
    scope : Scope, optional
        The scope with parameters and states, which are not modified; by default the default scope.
    device : str
    runs : int
        Number of measurements; medians are used.
    examples : int, optional
        Number of examples in the batch; by default the first dimension of the first feed.

    Returns
    -------
    callable
        A function that maps a number of processes, at least 2, to the `Step` for `simulate`.
        Programs whose shapes do not depend on this number are measured only once.

    Raises
    ------
    DistError
        If the program has no collectives, or its optimizer states are sharded for the processes
        that built it.
    MissingRequirementError
        If opwright-kit is not installed.
    FeedError
        If a feed is missing, unknown or has a wrong shape.
    """
    types = {op.type.removeprefix(_PREFIX) for op in program.global_block().ops}
    if types & set(SHARD_OPS):
        raise DistError(
            "rehearse: optimizer states must not be sharded, got a program for "
            "shard_optimizer=True; pass opwright_dist.whole_program(program)"
        )
    if not types & set(COLLECTIVES):
        raise DistError(
            "rehearse: the program must have collectives, got none; append them with "
            "opwright_dist.data_parallel between append_backward and the optimizer"
        )
    first = next(iter(feeds.values()), None)
    n_examples = examples if examples is not None else (len(first) if first is not None else 0)
    profile = ow.current_context().annexes.get("kit", "profile").load()

    @cache
    def measure(ranks: int) -> Step:
        with _imagined(ranks):
            compiled = ow.Network(program.global_block()).compile(
                feed=list(feeds), fetch=list(fetches), device=device, scope=scope
            )
            rows = profile(compiled, feeds, runs).rows
        return Step(tuple(_events(rows)), n_examples)

    if types & _DEPENDS_ON_RANKS:
        return measure
    return lambda ranks: measure(2)  # buckets do not depend on the number of processes


@contextmanager
def _imagined(ranks: int) -> Iterator[None]:
    context = ow.current_context()
    pins = {**context.pins, **{f"{_PREFIX}{name}": LIBRARY for name in (*COLLECTIVES, *PLAN_OPS)}}
    before = set_world(World(Rehearsal(ranks), deadline_s=1.0))
    try:
        with ow.context_guard(context.with_pins(pins)):
            yield
    finally:
        set_world(before)


def _events(rows: Sequence[Any]) -> Iterator[Event]:
    """Yield the computation and communication in the rows of an opwright-kit profile."""
    keys: dict[str, int] = {}
    buckets = {
        row.inputs[-1][0]: _size_of(row.outputs)  # identified by the handle that the start writes
        for row in rows
        if row.op_type == "dist.all_reduce_wait"
    }
    for row in rows:
        if row.depth:  # included in the time of its operator
            continue
        name = row.op_type.removeprefix(_PREFIX) if row.op_type.startswith(_PREFIX) else ""
        if name == "all_reduce_start":
            handle = row.outputs[0][0]
            keys[handle] = row.step
            yield Start(row.step, "all_reduce", buckets[handle])
        elif name == "all_reduce_wait":
            yield Wait(keys[row.inputs[-1][0]])
        elif name in COLLECTIVES:
            yield Start(row.step, name, _sent(name, row))
            yield Wait(row.step)
        elif name not in PLAN_OPS:
            yield Compute(row.median_s, row.op_type)


def _sent(name: str, row: Any) -> int:
    """Return the size of the unpartitioned tensor; for exchanged rows, the maximum sent size.

    In such an exchange, either x or out has room for the rows of all processes.
    """
    given, got = _size_of(row.inputs[:1]), _size_of(row.outputs)
    if name == "exchange_rows":
        return min(given, got)
    return got if name == "all_gather" else given


def _size_of(tensors: Sequence[tuple[str, str, tuple[int, ...]]]) -> int:
    return sum(size_bytes(Meta(shape, dtype)) for _, dtype, shape in tensors)
