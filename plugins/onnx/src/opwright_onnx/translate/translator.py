"""Appends the nodes of a graph to a Program; known values are computed immediately."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

import opwright as ow
from opwright.errors import OpwrightError
from opwright_onnx.dtypes import Array, array_dtype, numpy_dtype
from opwright_onnx.errors import ModelError, UnsupportedError, ValueNeededError
from opwright_onnx.translate.codes import Codes
from opwright_onnx.translate.model import Model
from opwright_onnx.translate.origins import find_inputs, names_of, reads_data
from opwright_onnx.translate.sizes import Sizes, fold_sizes, make_sizes, reads_sizes
from opwright_onnx.translate.values import (
    FLOATS,
    Value,
    count_bytes,
    describe,
    dtype_of,
    find_leaves,
    is_exact,
    is_list,
    with_numbers,
)

MAX_FOLDED_BYTES: Final = 2**24
"""The maximum size of a value that is computed at load time, unless its inputs are as large."""

MAX_FOLDED_BYTES_OF_ALL: Final = 2**31
"""The maximum total size of the values that are computed at load time."""

MAX_CONSTANT: Final = 64
"""The maximum element count of an array that becomes an operator; larger arrays go to the scope."""


class Translator:
    """The interface with which rows append opwright operators and read known values.

    Attributes
    ----------
    model : Model
        With opsets, functions and limits.
    block : Block
        The block to which operators are appended.
    env : ChainMap
        The values of the graph by name, followed by the values of the enclosing graphs.
    opsets : mapping
        The version of each domain in the graph or function body.
    arrays : dict
        The arrays to store in the scope, by variable name.
    guards_empty : bool
        Whether reductions must accept empty arrays, as in a branch that is not chosen.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.program = ow.Program()
        self.block = self.program.global_block()
        self.env: ChainMap[str, Value] = ChainMap()
        self.opsets: Mapping[str, int] = model.opsets
        self.arrays: dict[str, Array] = {}
        self.guards_empty = False
        self._placed: dict[int, tuple[Array, ow.Variable]] = {}
        # The arrays are kept alive, since an id can be reused once its array is freed.
        self._names: dict[int, tuple[Array, str]] = {}
        self._dims: dict[tuple[str, int], ow.Variable] = {}
        self._scratch = ow.Program().global_block()
        self._bytes_left = MAX_FOLDED_BYTES_OF_ALL

    def op(self, type: str, *inputs: Value, outputs: int | None = None, **named: Any) -> Any:
        """Append an operator; return the value of its first output, or a tuple of the first
        `outputs`.

        Inputs are given by position or name, attributes by name, as for ``opwright.ops.TYPE``;
        an input that is None is omitted, and a number becomes a constant with the dtype of the
        first input that has a dtype. If all inputs are known, so is the result.
        """
        proto = ow.op_proto(type)
        slots = [slot.name for slot in proto.inputs]
        given = dict(zip(slots, inputs))
        given.update({name: named.pop(name) for name in slots if name in named})
        numbers = [value for slot, value in given.items() if slot != "condition"]
        like = next((v for v in find_leaves(numbers) if hasattr(v, "dtype")), None)
        bound = {
            slot: with_numbers(value, like)
            for slot, value in given.items()
            if value is not None and slot not in proto.operands
        }
        leaves = find_leaves(bound.values())
        if outputs is None and reads_sizes(type, leaves):
            folded = fold_sizes(self, type, bound, named)
            if folded is not None:
                return folded
        if type == "assign" and isinstance(bound["x"], np.ndarray):
            return bound["x"]
        leaves += find_leaves(named.values())
        is_known = "step" not in proto.input_slots and not any(
            isinstance(value, (ow.Variable, Codes, Sizes)) for value in leaves
        )
        if is_known and self._is_small(type, bound, named):
            return self._compute(type, bound, named, outputs)
        return self._append(type, bound, named, outputs)

    def _append(
        self,
        type: str,
        bound: Mapping[str, Value],
        named: Mapping[str, Any],
        n: int | None = None,
    ) -> Any:
        proto = ow.op_proto(type)
        inputs = {
            slot: [self.variable(v) for v in value] if is_list(value) else self.variable(value)
            for slot, value in bound.items()
        }
        outputs = {}
        for slot in proto.outputs[:n] if n is not None else ():
            if slot.optional:
                outputs[slot.name] = self.program.unique_name(type)
        written = self.block.append_op(type, inputs, outputs, named)
        names = [written.outputs.get(slot.name, ()) for slot in proto.outputs]
        results = [
            tuple(map(self.block.var, found)) if slot.duplicable else self.block.var(found[0])
            for slot, found in zip(proto.outputs, names)
            if found
        ]
        return results[0] if n is None else tuple(results[:n])

    def _is_small(self, type: str, bound: Mapping[str, Value], named: Mapping[str, Any]) -> bool:
        """Return whether the result is small enough to compute now; invalid use raises an error."""
        arrays = find_leaves(bound.values())
        budget = max([MAX_FOLDED_BYTES, *(array.nbytes for array in arrays)])
        try:
            with ow.transaction():
                inputs = {
                    slot: [self._sketch(v) for v in find_leaves([value])]
                    for slot, value in bound.items()
                }
                written = self._scratch.append_op(type, inputs, {}, named)
                metas = [self._scratch.var(name).meta for name in written.output_names()]
                raise _UndoError
        except _UndoError:
            sizes = [count_bytes(meta) for meta in metas]
        if max(sizes, default=0) > min(budget, self._bytes_left):
            return False
        self._bytes_left -= sum(sizes)
        return True

    def _sketch(self, array: Array) -> ow.Variable:
        name = self._scratch.program.unique_name("sketch")
        return self._scratch.create_var(name, array.shape, array_dtype(array))

    def _compute(
        self, type: str, bound: Mapping[str, Value], named: Mapping[str, Any], n: int | None
    ) -> Any:
        function = getattr(ow.ops, type)
        if n is not None:
            named = {**named, "returns": [slot.name for slot in ow.op_proto(type).outputs[:n]]}
        result = function(**bound, **named)
        if n is not None:
            return tuple(result)
        first = ow.op_proto(type).outputs[0]
        if isinstance(result, tuple) and not first.duplicable:
            return result[0]
        return result

    def variable(self, value: Value) -> ow.Variable:
        """Return a Variable with the elements of a value."""
        if isinstance(value, ow.Variable):
            return value
        if isinstance(value, Sizes):
            return value.variable(self)
        if isinstance(value, Codes):
            raise UnsupportedError(
                f"an input must have a dtype that opwright supports, got {value.kind}; cast it"
            )
        if not isinstance(value, np.ndarray):
            raise ModelError(f"an input must be a tensor, got {describe(value)}")
        dtype = array_dtype(value)
        is_number = value.size == 1 and dtype in FLOATS
        is_free = is_number or (id(value) not in self._names and value.size <= MAX_CONSTANT)
        if is_free and is_exact(value, dtype):
            numbers = [float(number) for number in value.reshape(-1)]
            shape = list(value.shape)
            named: dict[str, Any] = {"shape": shape, "dtype": dtype}
            if value.size and all(number == numbers[0] for number in numbers):
                constant: ow.Variable = self._append("fill", {}, {**named, "value": numbers[0]})
            else:
                constant = self._append("constant", {}, {**named, "values": numbers})
            return constant
        _, placed = self._placed.get(id(value), (value, None))
        # A transaction that was rolled back also removed its Variables.
        if placed is None or self.block.find_var(placed.name) is not placed:
            placed = self.place(value, self._names.get(id(value), (value, "constant"))[1])
            self._placed[id(value)] = value, placed
        return placed

    def place(self, array: Array, name: str, is_trained: bool = False) -> ow.Variable:
        """Return a Variable that is stored in the scope; trained Variables are parameters."""
        block, dtype = self.program.global_block(), array_dtype(array)
        name = self.program.take_name(name)
        self.arrays[name] = array
        if is_trained and dtype in FLOATS:
            return block.create_parameter(name, array.shape, dtype)
        return block.create_var(name, array.shape, dtype, persistable=True, stop_gradient=True)

    def own(self, value: Value, *others: Value) -> Value:
        """Return a Variable with separate, writable memory, different from all `others`."""
        array = self.array(value)
        if array is None:
            return value
        if isinstance(value, ow.Variable) and all(value is not other for other in others):
            self.arrays[value.name] = array.copy()
            return value
        return self.place(array.copy(), self._names.get(id(array), (array, "statistic"))[1])

    def name(self, array: Array, name: str) -> None:
        """Set the name of the Variable that is created from an array in the model."""
        self._names[id(array)] = array, name

    def array(self, value: Value) -> Array | None:
        """Return the elements of a value, or None if they are known only at run time."""
        if isinstance(value, ow.Variable):
            return self.arrays.get(value.name)
        return None if isinstance(value, Sizes) else np.asarray(value)

    def need(self, value: Value, what: str) -> Array:
        """Return the elements of a value; ValueNeededError if they are known only at run time."""
        array = self.array(value)
        if array is None:
            inputs = self.sources(value)
            names = ", ".join(map(repr, inputs)) or "a random operator"
            is_size = not self.reads_data(names_of(value))
            raise ValueNeededError(
                f"{what} must be known when the model is loaded, got a value computed from "
                + (
                    f"the shape of {names}; give shapes: load(path, shapes={{name: shape}})"
                    if is_size
                    else f"{names}; give values: load(path, inputs={{name: array}})"
                ),
                inputs,
            )
        return array

    def ints(self, value: Value, what: str) -> list[int]:
        """Return the elements of a value as integers; they must be known."""
        return [int(number) for number in self.need(value, what).reshape(-1)]

    def number(self, value: Value, what: str) -> float:
        """Return the single element of a value; the element must be known."""
        array = self.need(value, what)
        if array.size != 1:
            raise ModelError(f"{what} must be one number, got the shape {list(array.shape)}")
        return array.reshape(-1)[0].item()  # type: ignore[no-any-return]

    def sizes(self, value: Value) -> list[Any]:
        """Return sizes for an attribute that accepts integers and Variables."""
        if isinstance(value, Sizes):
            return list(value.items)
        array = self.array(value)
        if array is None and self.shape(value) == [0]:
            return []
        if array is None and self.shape(value) == [None]:
            self.known_shape(value, "a vector of sizes")
        return [value] if array is None else [int(number) for number in array.reshape(-1)]

    def sources(self, value: Value) -> tuple[str, ...]:
        """Return the model inputs on which the value of a Variable depends."""
        return find_inputs(self.program, value)

    def reads_data(self, names: Iterable[str]) -> bool:
        """Return whether Variables depend on run-time data and not only on shapes."""
        return reads_data(self.program, names, self.arrays)

    def dtype(self, value: Value) -> str:
        """Return the dtype of a value."""
        return dtype_of(value)

    def shape(self, value: Value) -> list[int | None]:
        """Return the shape of a value, with None for unknown sizes."""
        if value.shape is None:
            inputs = self.sources(value)
            raise ValueNeededError(
                f"the number of axes must be known when the model is loaded, got none for "
                f"{value.name!r}; give shapes: load(path, shapes={{name: shape}})",
                inputs,
            )
        return [None if dim < 0 else dim for dim in value.shape]

    def rank(self, value: Value) -> int:
        """Return the number of axes of a value."""
        return len(self.shape(value))

    def known_shape(self, value: Value, what: str) -> list[int]:
        """Return the shape of a value; all of its sizes must be known."""
        shape = self.shape(value)
        found = [dim for dim in shape if dim is not None]
        if len(found) < len(shape):
            raise ValueNeededError(
                f"{what} must have a known shape when the model is loaded, got "
                f"{['?' if dim is None else dim for dim in shape]}; give shapes: "
                "load(path, shapes={name: shape})",
                self.sources(value),
            )
        return found

    def known_dim(self, value: Value, axis: int, what: str) -> int:
        """Return one size of a value; this size must be known, but other sizes can be unknown."""
        size = self.shape(value)[axis]
        return self.known_shape(value, what)[axis] if size is None else size

    def full(self, value: float, shape: Iterable[Any], dtype: str) -> Value:
        """Return a constant of a shape, filled with one number."""
        if dtype in ("int4", "uint4"):  # no kernel fills these dtypes
            return self.cast(self.full(value, shape, "int8"), dtype)
        return self.op("fill", shape=list(shape), value=float(value), dtype=dtype)

    def scalar(self, value: float, dtype: str) -> Array:
        """Return a number as a value."""
        return np.array(value, numpy_dtype(dtype))

    def cast(self, x: Value, dtype: str) -> Any:
        """Cast `x` to a dtype; return it unchanged if it has that dtype."""
        return x if self.dtype(x) == dtype else self.op("cast", x, dtype=dtype)

    def promote(self, x: Value, *types: str) -> tuple[Value, str]:
        """Cast `x` to ``types[0]`` unless its dtype is in `types`; also return the old dtype."""
        dtype = self.dtype(x)
        return (x if dtype in types else self.cast(x, types[0])), dtype

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """Return an axis as a non-negative index."""
        if not -rank <= axis < rank:
            raise ModelError(f"{what} must be in [{-rank}, {rank}), got {axis}")
        return axis % rank

    def reshape(self, x: Value, shape: Sequence[Any]) -> Value:
        """Reshape `x`; sizes can be integers and Variables."""
        return self.op("reshape", x, shape=list(shape))

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        """Permute the axes of `x`; return it unchanged if they are in order."""
        if list(axes) == list(range(len(axes))):
            return x
        if isinstance(x, np.ndarray) and x.nbytes <= self._bytes_left:
            self._bytes_left -= x.nbytes
            return x.transpose(axes)  # without a plan, and without a copy before it is placed
        return self.op("transpose", x, axes=list(axes))

    def dim(self, x: Value, axis: int) -> Any:
        """Return a size as an integer, or as a Variable [1] if it is unknown."""
        size, axis = self.shape(x)[axis], axis % self.rank(x)
        if size is not None:
            return size
        made = self._dims.get((x.name, axis))
        if made is None or self.block.find_var(made.name) is not made:
            made = self.slice(self.op("shape", x), [0], [axis], [axis + 1])
            self._dims[x.name, axis] = made
        return made

    def times(self, size: Any, factor: int) -> Any:
        """Return a multiple of a size of `dim`."""
        return size * factor if isinstance(size, int) else self.op("multiply", size, factor)

    def shape_vector(self, x: Value) -> Value:
        """Return the shape of a value as int64 [rank]; an array if all sizes are known."""
        shape = self.shape(x)
        items = [self.dim(x, axis) for axis in range(len(shape))]
        return make_sizes(items, (len(items),), "int64", is_natural=True)

    def slice(
        self, x: Value, axes: Sequence[int], starts: Sequence[Any], ends: Sequence[Any]
    ) -> Value:
        """Slice `x` with step 1."""
        return self.op("slice", x, axes=list(axes), starts=list(starts), ends=list(ends))


class _UndoError(OpwrightError):
    """Raised to roll back a transaction whose changes were made only for inspection."""
