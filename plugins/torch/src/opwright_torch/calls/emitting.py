"""Appends the operator that calls PyTorch for a graph node."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from operator import getitem
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node
from torch.utils._pytree import tree_flatten, tree_unflatten

import opwright as ow
from opwright.errors import DtypeError
from opwright_torch.calls.text import encode, encode_target
from opwright_torch.dtypes import NAMES, dtype_name

if TYPE_CHECKING:
    from opwright_torch.translate import Translator


class Deferred:
    """A PyTorch result, or an item of it, that cannot be a variable, such as a complex tensor.

    The call that computes this value is merged with the calls that read the value.
    """

    def __init__(self, target: Any, arguments: Any, named: Any, meta: Any) -> None:
        self.target, self.arguments, self.named, self.meta = target, arguments, named, meta
        self.whole = self
        self.path: tuple[int, ...] = ()

    def __getitem__(self, place: int) -> Deferred:
        part = Deferred(self.target, self.arguments, self.named, self.meta[place])
        part.whole, part.path = self.whole, (*self.path, place)
        return part


class Complex(Deferred):
    """A complex tensor whose real and imaginary parts are computed in the plan.

    Table rows for complex arguments use `pair`, a Variable with real and imaginary parts along a
    last axis of length 2. A call to PyTorch that reads the value begins with `view_as_complex`.
    """

    def __init__(self, pair: ow.Variable, meta: Any) -> None:
        super().__init__(torch.ops.aten.view_as_complex.default, (pair,), {}, meta)
        self.pair = pair


def deferred_types(value: Any) -> set[type[Deferred]]:
    """Return the types of the deferred values in an argument."""
    if isinstance(value, (tuple, list)):
        return set().union(*map(deferred_types, value))
    if isinstance(value, Mapping):
        return deferred_types(list(value.values()))
    return {type(value)} if isinstance(value, Deferred) else set()


def expect(meta: Any, result: Any) -> Iterator[tuple[torch.Tensor, ow.Variable]]:
    """Yield the Variables of a result, each with the tensor that PyTorch returns."""
    is_one = not isinstance(meta, (tuple, list))
    for tensor, value in [(meta, result)] if is_one else zip(meta, result):
        if isinstance(value, Complex):
            yield torch.view_as_real(tensor), value.pair
        elif isinstance(tensor, torch.Tensor) and value is not None:
            yield tensor, value


def settle(t: Translator, value: Deferred) -> Any:
    """Return the Variables of a result, or `value` if opwright does not support their dtypes."""
    leaves, spec = tree_flatten(_used(t.node, value.meta))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not tensors or any(leaf.dtype not in NAMES for leaf in tensors):
        return value
    places = _places(_used(t.node, value.meta), value.path)
    variables = iter(_append(t, value, places, tensors))
    held = [next(variables) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    return tree_unflatten(held, spec)


def _used(node: Node, meta: Any) -> Any:
    """Return the results of a node, with None for unused elements of a tuple.

    PyTorch's kernels can return empty tensors for unused elements; fake tensors do not show this.
    """
    if not isinstance(meta, (tuple, list)) or any(u.target is not getitem for u in node.users):
        return meta
    places = {user.args[1] for user in node.users}
    return tuple(part if i in places else None for i, part in enumerate(meta))


def refuse(value: Deferred) -> DtypeError:
    """Return the error for a deferred value that is a result of a plan."""
    leaves = [leaf for leaf in tree_flatten(value.meta)[0] if isinstance(leaf, torch.Tensor)]
    shown = ", ".join(f"{leaf.dtype} {list(leaf.shape)}" for leaf in leaves)
    return DtypeError(
        "torch.call: outputs of a plan must have a dtype that opwright supports, got "
        f"{shown or 'no tensor'} "
        f"of {value.target}; return real numbers, such as torch.view_as_real(x)"
    )


def _places(meta: Any, path: tuple[int, ...]) -> Iterator[list[int]]:
    """Yield the path to each tensor in the results of a call."""
    if isinstance(meta, (tuple, list)):
        for i, part in enumerate(meta):
            yield from _places(part, (*path, i))
    elif isinstance(meta, torch.Tensor):
        yield list(path)


def _append(
    t: Translator, value: Deferred, places: Iterator[list[int]], tensors: list[torch.Tensor]
) -> tuple[ow.Variable, ...]:
    writer = _Writer()
    number = writer.write(value.whole)
    text = {
        "inputs": [[v.dtype, list(v.shape or ())] for v in writer.inputs],
        "calls": writer.calls,
        "taken": [[number, *place] for place in places],
        "results": [[dtype_name(x.dtype), [t.size(dim) for dim in x.shape]] for x in tensors],
    }
    op_type = "torch.random_call" if writer.is_random else "torch.call"
    written = t.op(op_type, writer.inputs or None, call=json.dumps(text))
    results: tuple[ow.Variable, ...] = written
    return results


class _Writer:
    """Writes a deferred value and its deferred inputs as calls."""

    def __init__(self) -> None:
        self.inputs: list[ow.Variable] = []
        self.calls: list[Any] = []
        self.is_random = False
        self._places: dict[str, int] = {}
        self._numbers: dict[int, int] = {}  # indices of calls, by the identity of their values

    def write(self, value: Deferred) -> int:
        """Return the index of the call that computes a value; each call is written only once."""
        if id(value) not in self._numbers:
            arguments = encode(list(value.arguments), self._refer)
            named = {name: encode(item, self._refer) for name, item in value.named.items()}
            self._numbers[id(value)] = len(self.calls)
            self.calls.append([encode_target(value.target), arguments, named])
            tags = getattr(value.target, "tags", ())
            self.is_random = self.is_random or torch.Tag.nondeterministic_seeded in tags
        return self._numbers[id(value)]

    def _refer(self, value: Any) -> dict[str, Any] | None:
        if isinstance(value, Deferred):
            return {"call": [self.write(value.whole), *value.path]}
        if not isinstance(value, ow.Variable):
            return None
        if value.name not in self._places:
            self._places[value.name] = len(self.inputs)
            self.inputs.append(value)
        return {"input": self._places[value.name]}
