"""The graph that passes rewrite: operators over values in the order of the program.

A pass must keep the order of the reads and writes of every buffer. See `opwright.rewriting`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opwright._runtime import Prepared
from opwright.describe.definition import OpDefinition
from opwright.describe.meta import Meta, with_ints
from opwright.lowering.graph.constants import written_by
from opwright.lowering.graph.making import make_op, view_value
from opwright.lowering.graph.signature import Signature
from opwright.lowering.graph.uses import Uses
from opwright.lowering.graph.values import (
    Buffer,
    Continuation,
    External,
    LoweredOp,
    Role,
    Value,
    new_value,
)
from opwright.packages import ANY
from opwright.program import Operator, Program

if TYPE_CHECKING:
    from opwright.lowering.request import LowerRequest, Target

Unfinished = tuple[list[tuple[Any, Any]], Callable[[LoweredOp], Prepared]]


class Graph:
    """A network for known shapes, as passes see it.

    Attributes
    ----------
    target : Target
        Where the plan runs, and how its kernels are chosen.
    kernel_target : Target
        `target`, with the number of threads for which kernels are currently chosen.
    program : Program or None
        The program of the operators. It shows which dimensions are declared as unknown, which the
        shapes of one run do not. Passes must not change it.
    operators : sequence of Operator
        The operators of the network that are lowered; without a program, all operators.
    is_body : bool
        Whether it is the body of a loop or branch, or a continuation of one.
    device : str
        Device type that the plan runs on.
    feeds : dict of str to Value
    late_feeds : frozenset of str
        For a graph that is split in two: feeds of the second half.
    sinks : list of (Value, External)
        Values that must be in given memory at the end of the plan: fetches, or outputs of a body.
    keeps : list of Value
        Values that are needed after the last operator, by a continuation or the next iteration of a
        loop.
    fetches : list of Value
        The fetched values in order, once sinks are placed.
    lasting : dict of Buffer to Value
        The final value of each written memory of the scope.
    signatures : dict
        Data shared by equal operators, by type, metas and attributes.
    prepare_s : float
        Seconds spent in the ``prepare`` of kernels.
    keep_all : bool
        True for ``Network.run``: nothing may be removed.
    n_threads : int
        The number of threads of each chosen kernel.
    unfinished : dict of Prepared to (list of (function, argument), callable)
        Kernels that defer a part of their ``prepare`` to the end of lowering, each with the
        deferred work and a function that prepares the kernel of an operator again after this work.
    """

    _uses: Uses | None  # caches for the current operators, or None
    _by_type: dict[str, list[LoweredOp]] | None
    _type_names: set[str] | None

    def __init__(self, request: LowerRequest) -> None:
        self.target: Target = request.target
        self.kernel_target: Target = request.target
        self.program: Program | None = request.program
        self.operators: Sequence[Operator] = request.ops
        self.device = request.target.device.kind
        self.is_body = request.fetches.role is not Role.FETCH
        self.keep_all = request.persistables.keep_all
        self._varying = request.persistables.varying
        self._changing: frozenset[str] | None = None
        self.ops: list[LoweredOp] = []
        self.feeds: dict[str, Value] = {}
        self.late_feeds = frozenset(request.given.late)
        self.sinks: list[tuple[Value, External]] = []
        self.keeps: list[Value] = []
        self.fetches: list[Value] = []
        self.lasting: dict[Buffer, Value] = {}
        self.signatures: dict[tuple[Any, ...], Signature] = {}
        self.prepare_s = 0.0
        self.n_threads = 1
        self.n_constant = 0
        self.unfinished: dict[Prepared, Unfinished] = {}
        self.continuation: Continuation | None = None

    @property
    def ops(self) -> list[LoweredOp]:
        """The operators, in the order of the program."""
        return self._ops

    @ops.setter
    def ops(self, ops: Iterable[LoweredOp]) -> None:
        # mypyc does not check the argument of a setter, so a pass could store another type here.
        self._ops: list[LoweredOp] = ops if isinstance(ops, list) else list(ops)
        self.forget_uses()

    def replace_ops(self, ops: list[LoweredOp], removed: Iterable[LoweredOp] = ()) -> None:
        """Replace the operators; `uses` must contain both added and removed operators."""
        uses = self._uses
        self.ops = ops
        if uses is not None:
            uses.remove(removed)
            uses.arrange(ops)
            self._uses = uses

    @property
    def changing_names(self) -> frozenset[str]:
        """The names that the network's operators change, persistable or not."""
        if self._changing is None:
            slots = [written_by(op) for op in self.operators]
            self._changing = self._varying.union(
                name for names_of in slots for names in names_of for name in names
            )
        return self._changing

    def definition(self, op_type: str) -> OpDefinition | None:
        """Return the definition of an operator, or None if no plugin provides it."""
        return self.target.context.ops.find(op_type)

    def of_type(self, *types: str) -> list[LoweredOp]:
        """Return the operators of these types, in order; fast if the graph has none."""
        if self._by_type is None:
            self._by_type = defaultdict(list)
            for op in self.ops:
                self._by_type[op.type].append(op)
        lists = [ops for ops in map(self._by_type.get, set(types)) if ops]
        if len(lists) < 2:
            return list(lists[0]) if lists else []
        requested = frozenset(types)
        return [op for op in self.ops if op.type in requested]

    def type_names(self) -> set[str]:
        """Return the types of all operators, each also as ``"*.name"`` (any plugin)."""
        if self._type_names is None:
            types = {op.type for op in self.ops}
            self._type_names = types | {f"{ANY}.{t.rpartition('.')[2]}" for t in types}
        return self._type_names

    def value(self, name: str, meta: Meta) -> Value:
        """Return a new value in its own memory; ``name`` is for messages."""
        return new_value(name, with_ints(meta))

    def view(self, source: Value, meta: Meta) -> Value:
        """Return the data of ``source`` with a different shape, without a copy.

        Raises
        ------
        ShapeError
            If the dtype or the number of elements differs.
        """
        return view_value(source, with_ints(meta))

    def make(
        self,
        operator: OpDefinition | str,
        inputs: Mapping[str, Value | Sequence[Value]],
        outputs: Mapping[str, Value | Sequence[Value]],
        attrs: Mapping[str, Any] | None = None,
        *,
        like: LoweredOp,
    ) -> LoweredOp:
        """Return a new operator, checked against its definition; `edit` puts it into the graph.

        Parameters
        ----------
        operator : OpDefinition or str
        inputs, outputs : mapping of str to Value or sequence of Value
            By slot, without absent slots. Outputs may be values that other operators write so far,
            so that a fetch or a persistable keeps its value.
        attrs : mapping, optional
            Omitted attributes have their defaults.
        like : LoweredOp
            The operator of the program to name in errors.

        Raises
        ------
        OpwrightError
            If operator, slots, attributes, dtypes or shapes are wrong, or an output that must
            share the memory of an input does not.
        """
        return make_op(self, operator, inputs, outputs, attrs or {}, like)

    def uses(self) -> Uses:
        """Return the readers and writers in the current graph; cached until it changes."""
        if self._uses is None:
            self._uses = Uses(self)
        return self._uses

    def check_uses(self) -> bool:
        """Return whether only edits have changed the graph; otherwise clear the caches."""
        is_edited = self._uses is not None and [*self._uses.position] == self._ops
        if not is_edited:
            self.forget_uses()
        return is_edited

    def forget_uses(self) -> None:
        """Clear the caches of `uses` and `of_type`, after the list ``ops`` was changed in place."""
        self._uses = None
        self._by_type = None
        self._type_names = None
