"""Translates a graph of ATen operators to a Program, node by node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, Node
from torch.utils._pytree import tree_leaves, tree_map_only

import opwright as ow
from opwright.errors import OpwrightError
from opwright_torch.calls.emitting import Complex, Deferred, deferred_types, expect, refuse, settle
from opwright_torch.dtypes import NAMES, dtype_name, torch_dtype
from opwright_torch.translate.lengths import Lengths, open_shape
from opwright_torch.translate.opening import open_composite
from opwright_torch.translate.sizes import Size, as_size
from opwright_torch.translate.table import Decline, apply_row, bind, find_row

Value = Any
"""A Variable, a number, None, or a tuple or list of these."""

FLOATS = ("float16", "bfloat16", "float32", "float64")


class Declined(NamedTuple):
    """A node that PyTorch computes."""

    node: Node
    reason: str


class Translated(NamedTuple):
    """A Program, and how its variables correspond to the graph."""

    program: ow.Program
    inputs: list[str | None]  # the variable of each placeholder; None for a number
    outputs: list[Value]
    constants: dict[str, torch.Tensor]  # constant tensors of the graph, by variable
    nodes: dict[str, Node]  # the node that wrote each variable
    declined: list[Declined]
    trained: frozenset[str]  # variables through which gradients flow


def translate(
    graph: Graph,
    owner: Any,
    sizes: Mapping[Any, int] | None = None,
    kept: Iterable[int] = (),
    trainable: Iterable[int] = (),
    conditions: Iterable[Any] = (),
    alone: bool = False,
) -> Translated:
    """Translate a functional graph of ATen operators to a Program.

    Parameters
    ----------
    graph : Graph
        Its placeholders and nodes have a ``meta["val"]``: a FakeTensor or a SymInt.
    owner : object
        The object with the attributes that ``get_attr`` nodes read.
    sizes : mapping of sympy.Symbol to int, optional
        The known symbols of shapes. Other symbols are unknown in the Program, which computes values
        that depend on them and uses them as shape operands.
    kept : iterable of int
        The placeholders stored in the scope; other placeholders are fed.
    trainable : iterable of int
        The placeholders that get gradients.
    conditions : iterable of sympy.Basic
        The conditions on unknown sizes that a run checks.
    alone : bool
        Whether the Program must work without PyTorch. Declined operators are then not replaced by
        calls to PyTorch, and the Program must not be run if there are any.
    """
    translator = Translator(owner, sizes or {}, alone)
    return translator.run(graph, frozenset(kept), frozenset(trainable), list(conditions))


class Translator:
    """The interface with which rows append opwright operators and read sizes.

    Attributes
    ----------
    block : Block
        The block of the Program under construction.
    node : Node
        The current node.
    """

    node: Node

    def __init__(self, owner: Any, sizes: Mapping[Any, int], alone: bool = False) -> None:
        self.program = ow.Program()
        self.block = self.program.global_block()
        self._owner, self._sizes, self._alone = owner, sizes, alone
        self._env: dict[Node, Value] = {}
        self._constants: dict[str, torch.Tensor] = {}
        self._nodes: dict[str, Node] = {}
        self._declined: list[Declined] = []
        self._trained: set[str] = set()
        self._writers: dict[str, ow.Operator] = {}
        self._lengths = Lengths(self.block, self.op)

    def op(self, type: str, *inputs: Value, n: int | None = None, **named: Any) -> Any:
        """Append an operator; return the Variable of its first output, or a tuple of the first `n`.

        Inputs are given by position or name, attributes by name, as for ``opwright.ops.TYPE``;
        an input that is None is omitted, and a number becomes a constant of the dtype of the
        first Variable.
        """
        proto = ow.op_proto(type)
        slots = [slot.name for slot in proto.inputs]
        given = dict(zip(slots, inputs))
        given.update({name: named.pop(name) for name in slots if name in named})
        like = next((v for v in given.values() if isinstance(v, ow.Variable)), None)
        bound = {
            slot: self._as_input(value, like)
            for slot, value in given.items()
            if value is not None and slot not in proto.operands
        }
        written = self._lengths.append(proto, bound, named)
        names = [
            written.output(slot.name) for slot in proto.outputs if slot.name in written.outputs
        ]
        self.mark(bound.values(), written.output_names())
        self._writers.update(dict.fromkeys(written.output_names(), written))
        results: list[Any] = [
            tuple(map(self.block.var, found)) if slot.duplicable else self.block.var(found[0])
            for slot, found in zip(proto.outputs, names)
            if found
        ]
        return results[0] if n is None else tuple(results[:n])

    def writer(self, x: ow.Variable, *types: str) -> ow.Operator | None:
        """Return the operator that wrote `x` if it has one of `types` and passes gradients."""
        written = self._writers.get(x.name)
        if written is None or written.type not in types:
            return None
        inputs = map(self.block.var, written.input_names())
        return written if self.trains(*inputs) == self.trains(x) else None

    def trains(self, *values: Value) -> bool:
        """Return whether a gradient can flow to any of these Variables."""
        return any(isinstance(v, ow.Variable) and v.name in self._trained for v in values)

    def stop(self, x: ow.Variable) -> ow.Variable:
        """Stop the gradient of a result that a row has just written, and return it."""
        x.stop_gradient = True
        self._trained.discard(x.name)
        return x

    def full(self, value: Any, shape: Iterable[Any], dtype: str) -> Any:
        """Return a constant of a shape, filled with one number."""
        if isinstance(value, Size):
            size = self.cast(self._lengths.number(value), dtype)
            return self.op("expand", size, shape=list(shape)) if shape else size
        number = int(value) if isinstance(value, bool) else value
        return self.op("fill", shape=list(shape), value=number, dtype=dtype)

    def cast(self, x: ow.Variable, dtype: str) -> Any:
        """Cast `x` to a dtype; return it unchanged if it has that dtype."""
        return x if x.dtype == dtype else self.op("cast", x, dtype=dtype)

    def promote(self, *values: Value, dtype: str | None = None) -> tuple[Any, ...]:
        """Cast operands to one dtype, by default the result dtype of the node.

        Numbers become constants.
        """
        dtype = dtype or self.dtype()
        return tuple(
            self.cast(v, dtype) if isinstance(v, ow.Variable) else self.full(v, (), dtype)
            for v in values
        )

    def promoted_dtype(self, x: Value, y: Value) -> str:
        """Return the dtype to which PyTorch promotes two Variables or numbers."""
        pair = [
            torch.empty((1,) * len(v.shape or ()), dtype=torch_dtype(v.dtype), device="meta")
            if isinstance(v, ow.Variable)
            else (2 if isinstance(v, Size) else v)
            for v in (x, y)
        ]
        return dtype_name(torch.result_type(*pair))

    def meta(self, node: Node | None = None) -> Any:
        """Return ``meta["val"]`` of a node, by default of the current node."""
        return (node or self.node).meta.get("val")

    def dtype(self) -> str:
        """Return the dtype of the node's first result."""
        value = self.meta()
        return dtype_name((value[0] if isinstance(value, (tuple, list)) else value).dtype)

    def size(self, value: Any) -> Any:
        """Return a size as a number, or as a `Size` if it is unknown before a run."""
        return as_size(value, self._sizes)

    def shape(self, x: ow.Variable | None = None) -> list[Any]:
        """Return the shape of a Variable, by default of the node's result; see `size`."""
        if x is None:
            return [self.size(dim) for dim in self.meta().shape]
        return self._lengths.shape(x)

    def run(
        self, graph: Graph, kept: frozenset[int], trainable: frozenset[int], conditions: list[Any]
    ) -> Translated:
        """Translate every node; see `translate`."""
        inputs: list[str | None] = []
        outputs: list[Value] = []
        for node in graph.nodes:
            if node.op == "placeholder":
                inputs.append(self._enter(node, len(inputs) in kept, len(inputs) in trainable))
            elif node.op == "get_attr":
                self._env[node] = self._constant(node)
            elif node.op == "output":
                outputs = list(self._read(node.args[0]))
                for value in outputs:
                    if isinstance(value, Complex if self._alone else Deferred):
                        raise refuse(value)
            else:
                while conditions:
                    self._require(conditions.pop())
                self._env[node] = self._compute(node)
        return Translated(
            self.program,
            inputs,
            outputs,
            self._constants,
            self._nodes,
            self._declined,
            frozenset(self._trained),
        )

    def _enter(self, node: Node, is_kept: bool, is_trained: bool) -> str | None:
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor):
            self._env[node] = value
            return None
        shape, dtype = [self.size(dim) for dim in value.shape], dtype_name(value.dtype)
        name = self.program.free_name(node.meta.get("name", node.name))
        if is_trained:
            variable: ow.Variable = self.block.create_parameter(name, shape, dtype)
            self._env[node] = variable
            self._trained.add(variable.name)
            return variable.name
        variable = self.block.create_var(
            name,
            open_shape(shape),
            dtype,
            persistable=is_kept,
            stop_gradient=True,
            is_data=not is_kept,
        )
        self._lengths.enter(variable, shape)
        self._env[node] = variable
        return variable.name

    def _require(self, condition: Any) -> None:
        """Make the Program fail at run time if sizes violate a condition."""
        x, checked = self._lengths.require(condition)
        self._env.update({node: checked for node, v in self._env.items() if v is x})

    def _stand_in(self, declined: Deferred) -> Any:
        """Return placeholder Variables for a declined result, so its readers can be translated."""
        leaves = tree_leaves(declined.meta)
        if any(isinstance(leaf, torch.Tensor) and leaf.dtype not in NAMES for leaf in leaves):
            return declined
        return tree_map_only(torch.Tensor, self._declare, declined.meta)

    def _declare(self, tensor: torch.Tensor) -> ow.Variable:
        name = self.program.unique_name("declined")
        variable = self.block.create_var(name, dtype=dtype_name(tensor.dtype))
        self._lengths.set(variable, [self.size(dim) for dim in tensor.shape])
        return variable

    def _constant(self, node: Node) -> Value:
        value = self._owner
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            return value
        name = self.program.free_name(node.name)
        self._constants[name] = value
        return self.block.create_var(
            name, list(value.shape), dtype_name(value.dtype), persistable=True, stop_gradient=True
        )

    def _compute(self, node: Node) -> Value:
        before = len(self.block.ops)
        try:
            with ow.transaction():
                result = self._evaluate(node)
        except (Decline, OpwrightError) as reason:
            self.node = node
            self._declined.append(Declined(node, str(reason)))
            read = self._read(node.args), self._read(node.kwargs)
            result = Deferred(node.target, *read, self.meta())
        if isinstance(result, Deferred):
            result = self._stand_in(result) if self._alone else settle(self, result)
        names = [name for op in self.block.ops[before:] for name in op.output_names()]
        self._nodes.update(dict.fromkeys(names, node))
        if node.meta.get("requires_grad") is not False:
            return result
        for name in names:
            self.stop(self.block.var(name))
        return self._stopped(result)

    def _evaluate(self, node: Node) -> Value:
        self.node = node
        target: Any = node.target
        arguments, named = self._read(node.args), self._read(node.kwargs)
        if isinstance(target, torch._ops.HigherOrderOperator):
            raise Decline("no table has a row for it")
        if isinstance(self.meta(), (int, torch.SymInt)):
            return self.size(self.meta())
        if not isinstance(target, torch._ops.OpOverload):
            return target(*arguments, **named)  # size arithmetic, getitem
        if not target._schema.returns:  # an assertion that was checked during tracing
            return None
        deferred = deferred_types((arguments, named))
        if Deferred in deferred:
            raise Decline("its argument exists only in PyTorch, such as complex numbers")
        try:
            with ow.transaction():
                row = find_row(target, "complex " if deferred else "")
                result = apply_row(row, self, bind(target, arguments, named))
                self._check(result)
                return result
        except (Decline, OpwrightError) as reason:
            return self._write_pieces(node, reason)

    def _write_pieces(self, node: Node, reason: Exception) -> Value:
        """Translate the decomposition of a composite operator; raise `reason` if there is none."""
        try:
            opened = open_composite(node)
        except Exception as error:  # PyTorch kernels can raise any exception
            raise Decline(f"{reason}; its decomposition: {error}") from error
        if opened is None:
            raise reason
        owner, self._owner = self._owner, opened.module
        try:
            inputs = iter(opened.inputs)
            for piece in opened.module.graph.nodes:
                if piece.op == "output":
                    return self._read(piece.args[0])
                elif piece.op == "placeholder":
                    self._env[piece] = self._env[next(inputs)]
                elif piece.op == "get_attr":
                    self._env[piece] = self._constant(piece)
                else:
                    self._env[piece] = self._evaluate(piece)
        except (Decline, OpwrightError) as error:
            raise Decline(f"{reason}; its decomposition has {self.node.target}: {error}") from None
        finally:
            self._owner, self.node = owner, node

    def _stopped(self, value: Value) -> Value:
        """Return a result at which the gradient stops, copied if a gradient can flow to it."""
        if isinstance(value, (tuple, list)):
            return type(value)(self._stopped(item) for item in value)
        if isinstance(value, Complex):
            return Complex(self._stopped(value.pair), value.meta)
        return self.stop(self.op("assign", value)) if self.trains(value) else value

    def _check(self, result: Value) -> None:
        """Decline a result whose shapes or dtypes differ from PyTorch's."""
        for tensor, variable in expect(self.meta(), result):
            shape = [self.size(dim) for dim in tensor.shape]
            dtype = dtype_name(tensor.dtype)
            if variable.dtype != dtype or not self._lengths.take(variable, shape):
                raise Decline(
                    f"its row returns {variable.dtype} {list(variable.shape or ())}, but "
                    f"PyTorch returns {dtype} {shape}"
                )

    def _read(self, value: Any) -> Any:
        """Return an argument of a node, with Variables for nodes and numbers for sizes."""
        if isinstance(value, Node):
            return self._read(self._env[value])
        if isinstance(value, (tuple, list)):
            return type(value)(self._read(item) for item in value)
        if isinstance(value, Mapping):
            return {name: self._read(item) for name, item in value.items()}
        return self.size(value) if isinstance(value, torch.SymInt) else value

    def mark(self, inputs: Iterable[Value], outputs: Iterable[str]) -> None:
        """Record the outputs of an operator if a gradient can flow through them."""
        names = [name for name in outputs if self.block.var(name).dtype in FLOATS]
        read = [v for value in inputs for v in (value if isinstance(value, list) else [value])]
        if self.trains(*read):
            self._trained.update(names)

    def _as_input(self, value: Value, like: ow.Variable | None) -> Value:
        if isinstance(value, (bool, int, float)):
            return self.full(value, (), "float32" if like is None else like.dtype)
        if isinstance(value, Size):
            return self.full(value, (), "int64" if like is None else like.dtype)
        return list(value) if isinstance(value, tuple) else value
