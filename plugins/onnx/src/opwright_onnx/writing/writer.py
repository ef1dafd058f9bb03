"""Writes the operators of a program as nodes of an ONNX graph."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from onnx import GraphProto, ValueInfoProto, helper

import opwright as ow
from opwright.errors import OpwrightError
from opwright_onnx.dtypes import element_type
from opwright_onnx.errors import DeclinedError, UnsupportedError
from opwright_onnx.translate.node import PREFIX
from opwright_onnx.translate.own import (
    INPUTS,
    MARK,
    MORE,
    OUTPUTS,
    name_own,
    write_attribute,
)
from opwright_onnx.writing.bodies import open_body
from opwright_onnx.writing.nodes import Nodes
from opwright_onnx.writing.table import find_data, find_function

Op = Any
"""The type of the operators passed to rows: an Operator whose attributes have declared types."""

_HALVES: Final = ("float16", "bfloat16")


class Writer(Nodes):
    """The interface with which rows append nodes and read operators of a program.

    Attributes
    ----------
    program, block : Program, Block
        The program and block of the operator being written.
    own : dict
        Why operators were written as nodes of opwright domains, by operator type.
    infos : list of ValueInfoProto
        The types of the outputs of these nodes.
    """

    def __init__(self, program: ow.Program, opset: int, *, only_own: bool = False) -> None:
        super().__init__(opset)
        self.block = program.global_block()
        self.program = program
        self.infos: list[ValueInfoProto] = []
        self.own: dict[str, str] = {}
        self._only_own = only_own
        self._env: ChainMap[str, str] = ChainMap()
        self._read: set[str] = {n for b in program.blocks for op in b.ops for n in op.input_names()}
        self._inside = 0
        self._is_wide = False

    def var(self, name: str) -> ow.Variable:
        """Return the program's variable with this name."""
        return self.block.var(name)

    def get(self, name: str) -> str:
        """Return the graph name of a variable."""
        if name not in self._env:
            raise UnsupportedError(
                f"save: {name!r} must be fed, written or in the scope, got none of these"
            )
        return self._env[name]

    def input(self, op: Op, slot: str) -> str:
        """Return the graph name of an input, or '' if it is absent."""
        names = op.inputs.get(slot, ())
        return self.get(names[0]) if names else ""

    def inputs(self, op: Op, slot: str) -> list[str]:
        """Return the graph names of a slot's inputs."""
        return [self.get(name) for name in op.inputs.get(slot, ())]

    def dtype(self, op: Op, slot: str = "x") -> str:
        """Return the dtype of an input or output."""
        dtype = str(self._of(op, slot).dtype)
        return "float32" if self._is_wide and dtype in _HALVES else dtype

    def shape(self, op: Op, slot: str = "x") -> tuple[int, ...]:
        """Return the shape of an input or output, -1 for unknown sizes; the rank must be known."""
        shape = self._of(op, slot).shape
        if shape is None:
            raise DeclinedError(f"the number of axes of {slot} must be known")
        return tuple(shape)

    def known_shape(self, op: Op, slot: str = "x") -> tuple[int, ...]:
        """Return the shape of an input or output; all of its sizes must be known."""
        shape = self.shape(op, slot)
        if -1 in shape:
            raise DeclinedError(f"the shape of {slot} must be known, got {shape}")
        return shape

    def _of(self, op: Op, slot: str) -> ow.Variable:
        names = op.inputs.get(slot) or op.outputs.get(slot) or ()
        if not names:
            raise DeclinedError(f"{slot} must be given")
        return self.var(names[0])

    def wants(self, op: Op, slot: str) -> bool:
        """Return whether an output is read."""
        return any(name in self._read for name in op.outputs.get(slot, ()))

    def items(self, op: Op, attr: str) -> list[Any]:
        """Return the items of an attribute as integers or names of one-element graph values."""
        value, marks = op.attrs.get(attr), (MARK, MORE) if op.inputs.get(attr) else ()
        numbers = list(value) if isinstance(value, tuple) else [] if value is None else [value]
        found: list[Any] = []
        names = iter(op.inputs.get(attr, ()))
        vector, place = "", 0
        for i, number in enumerate(numbers):
            if number not in marks:
                found.append(number)
                continue
            if number == MARK:
                vector, place = self._as_vector(next(names)), 0
            is_one = number == MARK and numbers[i + 1 : i + 2] != [MORE]
            bounds = [self.ints([p]) for p in (place, place + 1)]
            found.append(vector if is_one else self.node("Slice", vector, *bounds))
            place += 1
        return found

    def _as_vector(self, variable: str) -> str:
        name = self.cast(self.get(variable), "int64")
        shape = self.var(variable).shape
        is_vector = shape is not None and len(shape) == 1
        return name if is_vector else str(self.node("Reshape", name, self.ints([-1])))

    def numbers(self, op: Op, attr: str) -> str:
        """Return the name of an int64 vector with the elements of an attribute."""
        names, value = op.inputs.get(attr, ()), op.attrs[attr]
        if len(names) == 1 and isinstance(value, tuple) and set(value) <= {MARK, MORE}:
            return self._as_vector(names[0])
        return self.vector(self.items(op, attr))

    def known(self, op: Op, attr: str) -> list[int]:
        """Return the numbers in an attribute; they must not be computed at run time."""
        if op.inputs.get(attr):
            raise DeclinedError(f"{attr} must be known")
        return list(op.attrs.get(attr) or ())

    def known_number(self, op: Op, attr: str) -> int:
        """Return the number in an attribute; it must not be computed at run time."""
        if op.inputs.get(attr):
            raise DeclinedError(f"{attr} must be known")
        return int(op.attrs[attr])

    def enter(self, name: str, value: Any, dims: Sequence[Any] | None = None) -> Any:
        """Add a parameter, or add a graph input and return it."""
        self.taken.add(name)
        self.bind(name, name)
        if isinstance(value, np.ndarray):
            return self.place(value, name)
        self.dtypes[name] = str(value.dtype)
        return self.describe(name, value, dims)

    def bind(self, variable: str, name: str) -> None:
        """Map a variable to a graph name for the operators that follow."""
        self._env[variable] = name

    # Operators

    def write(self, op: Op) -> None:
        """Write an operator by a row, otherwise by its body or as a node of an opwright domain."""
        start, infos, domains = len(self.nodes), len(self.infos), set(self.domains)
        reasons = []
        for way in self._ways(op):
            try:
                self._bind(op, way(op), start)
                return
            except DeclinedError as reason:
                reasons.append(str(reason))
                del self.nodes[start:], self.infos[infos:]
                self.domains = set(domains)
        if self._inside:
            raise DeclinedError(f"{op.type}: {'; '.join(reasons) or 'the operator has no row'}")
        self._bind(op, self._write_own(op, reasons), start)

    def _ways(self, op: Op) -> list[Callable[[Op], Any]]:
        function = find_function(op.type)
        if self._only_own and not op.definition.proto.has_blocks:
            return []
        if self._turns_number(op):
            return [self._write_body] if op.definition.body is not None else []
        ways: list[Callable[[Op], Any]] = [] if function is None else [partial(function, self)]
        ways += [partial(self._write_data, row) for row in find_data(op.type)]
        if any(self.var(name).dtype in _HALVES for name in op.input_names()):
            ways += [partial(self._write_wide, way) for way in ways]
        return [*ways, self._write_body] if op.definition.body is not None else ways

    def _turns_number(self, op: Op) -> bool:
        """Return whether an operator passes an axis for a scalar input, which ONNX rejects."""
        names = op.inputs.get("x", ())
        shape = self.var(names[0]).shape if len(names) == 1 else None
        return shape == () and op.attrs.get("axis") not in (None, ()) and op.type != "unsqueeze"

    def _write_wide(self, way: Callable[[Op], Any], op: Op) -> Any:
        """Write an operator on 16-bit floats in float32 if ONNX does not support their dtype."""
        before, self._env = self._env, self._env.new_child()
        self._is_wide = True
        try:
            for name in op.input_names():
                if self.var(name).dtype in _HALVES:
                    self.bind(name, self.cast(self.get(name), "float32"))
            return way(op)
        finally:
            self._env, self._is_wide = before, False

    def _write_data(self, row: tuple[Any, ...], op: Op) -> tuple[Any, ...]:
        domain, name, since, names = row
        if not domain and self.opset < since:
            raise DeclinedError(f"ONNX's {name} exists only since opset {since}")
        proto = op.definition.proto
        for attr in proto.attrs:
            if attr.name not in names and op.attrs.get(attr.name) != attr.default:
                raise DeclinedError(f"ONNX's {name} has no {attr.name}")
        if any(op.inputs.get(name) for name in proto.operands):
            raise DeclinedError(f"ONNX's {name} accepts only numbers")
        inputs = [n for slot in proto.inputs for n in self.inputs(op, slot.name) or [""]]
        attrs = {names[key]: value for key, value in op.attrs.items() if key in names}
        count = sum(1 for slot in proto.outputs if slot.name in op.outputs)
        return tuple(self.node(name, *inputs, outputs=count, domain=domain, **attrs))

    def _write_body(self, op: Op) -> list[Any]:
        try:
            inner = open_body(op, self.block)
        except OpwrightError as reason:
            raise DeclinedError(f"the function body cannot be written: {reason}") from reason
        if inner is None:
            raise DeclinedError("the operator has no body for these inputs")
        outputs = list(op.output_names())
        before, self._env = self._env, self._env.new_child()
        block, self.block = self.block, inner
        read = self._read
        self._read = {n for o in inner.ops for n in o.input_names()} | set(outputs)
        self._inside += 1
        try:
            for each in inner.ops:
                self.write(each)
            return [
                [self.get(name) if name in self._env.maps[0] else None for name in names]
                for names in (op.outputs.get(s.name, ()) for s in op.definition.proto.outputs)
            ]
        finally:
            self._env, self.block, self._read = before, block, read
            self._inside -= 1

    def _write_own(self, op: Op, reasons: Sequence[str]) -> list[Any]:
        proto = op.definition.proto
        if proto.has_blocks:
            raise UnsupportedError(
                f"save: {op.type} must have a counterpart in ONNX, got {op!r}: {'; '.join(reasons)}"
            )
        slots = [slot for slot, names in op.inputs.items() for _ in names]
        named = [s.name for s in proto.outputs for _ in op.outputs.get(s.name, ())]
        domain, name = name_own(op.type)
        inputs = [self.get(n) for n in op.input_names()]
        outputs = [self.take(name) for _ in named]
        node = helper.make_node(name, inputs, outputs, domain=domain)
        for attr in proto.attrs:
            if op.attrs.get(attr.name) is not None:
                node.attribute.append(write_attribute(attr, op.attrs[attr.name]))
        if slots != [s.name for s in proto.inputs][: len(slots)]:
            node.attribute.append(helper.make_attribute(INPUTS, slots))
        if named != [s.name for s in proto.outputs][: len(named)]:
            node.attribute.append(helper.make_attribute(OUTPUTS, named))
        self.nodes.append(node)
        self.domains.add(domain)
        self.own[op.type] = "; ".join(reasons) or "no row writes the operator"
        found = iter(outputs)
        return [[next(found) for _ in op.outputs.get(s.name, ())] for s in proto.outputs]

    def _bind(self, op: Op, results: Any, start: int) -> None:
        """Bind program variables to the results of a row, and rename the results accordingly."""
        slots = op.definition.proto.outputs
        groups = list(results) if isinstance(results, (tuple, list)) else [results]
        groups += [None] * (len(slots) - len(groups))
        pairs: list[tuple[str, str]] = []
        for slot, group in zip(slots, groups):
            names = op.outputs.get(slot.name, ())
            listed = list(group) if isinstance(group, (tuple, list)) else [group] * len(names)
            for name, found in zip(names, listed, strict=True):
                if found:
                    dtype = self.var(name).dtype
                    self.dtypes[found] = self.dtypes.get(found) or dtype
                    pairs.append((name, self.cast(found, dtype)))
                elif name in self._read:
                    raise DeclinedError(f"the output {slot.name} has no counterpart")
        for name, found in pairs:
            self.bind(name, self._rename(found, name, start))

    def _rename(self, found: str, name: str, start: int) -> str:
        """Rename a node output to its name in the program."""
        written = self.nodes[start:]
        if name in self.taken or not any(found in node.output for node in written):
            return found
        if self._inside:
            return found
        for node in written:
            for names in (node.input, node.output):
                for i, old in enumerate(names):
                    if old == found:
                        names[i] = name
        self.taken.add(name)
        self.dtypes[name] = self.dtypes.pop(found)
        if any(n.domain.startswith(PREFIX) and name in n.output for n in written):
            self.infos.append(self.describe(name, self.var(name)))
        return name

    # Graphs

    def describe(
        self, name: str, variable: ow.Variable, dims: Sequence[Any] | None = None
    ) -> ValueInfoProto:
        """Describe a graph value by its dtype, and its shape with names for unknown sizes."""
        shape: list[Any] | None = None
        if variable.shape is not None:
            given = dims or [None] * len(variable.shape)
            shape = [
                size if size >= 0 else dim if isinstance(dim, str) else None
                for size, dim in zip(variable.shape, given)
            ]
        return helper.make_tensor_value_info(name, element_type(str(variable.dtype)), shape)

    def graph(
        self,
        block: ow.Block,
        inputs: Sequence[tuple[str | None, str, ow.Variable | None]],
        leave: Callable[[], Iterable[str]],
        name: str,
    ) -> GraphProto:
        """Write a block as a subgraph of the current graph.

        Parameters
        ----------
        inputs : sequence of (str or None, str, Variable or None)
            The variable name of an input, or None; its dtype; its description.
        leave : callable
            Called when the block is written; returns the graph names of the outputs.
        """
        outer = self._env, self.block, self.nodes, self.infos
        self._env, self.block, self.nodes, self.infos = self._env.new_child(), block, [], []
        try:
            entries = []
            for variable, dtype, like in inputs:
                entry = self.take(variable or name)
                self.dtypes[entry] = dtype
                if variable is not None:
                    self.bind(variable, entry)
                scalar = helper.make_tensor_value_info(entry, element_type(dtype), [])
                entries.append(scalar if like is None else self.describe(entry, like))
            for op in block.ops:
                self.write(op)
            made = [self._own(found) for found in leave()]
            outputs = [
                helper.make_tensor_value_info(n, element_type(str(self.dtypes[n])), None)
                for n in made
            ]
            return helper.make_graph(self.nodes, name, entries, outputs, value_info=self.infos)
        finally:
            self._env, self.block, self.nodes, self.infos = outer

    def _own(self, name: str) -> str:
        """Copy a value, so each output is written by a separate node of this graph."""
        return str(self.node("Identity", name, dtype=self.dtypes.get(name)))

    def finish(self, fetch: str) -> str:
        """Return the graph name of a result: the program name if it is unused in the graph."""
        found = self.get(fetch)
        if found == fetch:
            return found
        name = self.take(fetch)
        self.nodes.append(helper.make_node("Identity", [found], [name]))
        return name
