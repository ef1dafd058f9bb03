"""Collects the nodes and constants of a graph under construction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from opwright_onnx.dtypes import Array, array_dtype, element_type, numpy_dtype
from opwright_onnx.errors import DeclinedError
from opwright_onnx.writing.types import check_types

MAX_SHARED: Final = 64
"""The maximum element count of a constant that is reused by all its readers."""


class Nodes:
    """A graph under construction, in which values have unique names.

    Attributes
    ----------
    opset : int
        The opset of ONNX's own operators.
    nodes : list of NodeProto
    arrays : dict
        The initializers by name.
    dtypes : dict
        The opwright dtypes by name; None for an unknown dtype.
    domains : set
        The domains of the nodes.
    """

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.arrays: dict[str, Array] = {}
        self.dtypes: dict[str, str | None] = {}
        self.domains = {""}
        self.taken: set[str] = set()
        self._counts: dict[str, int] = {}
        self._shared: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def node(
        self,
        op_type: str,
        *inputs: str,
        outputs: int | None = None,
        dtype: str | None = None,
        domain: str = "",
        **attrs: Any,
    ) -> Any:
        """Append a node; return the name of its output, or a tuple of `outputs` names.

        `dtype` is the dtype of the first output if the schema does not determine it; an attribute
        that is None is omitted.
        """
        dtypes = [self.dtypes.get(name) for name in inputs]
        found = check_types(op_type, domain, self.opset, dtypes, dtype) if not domain else {}
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        names = [self.take(op_type.lower()) for _ in range(outputs or 1)]
        kept = {name: value for name, value in attrs.items() if value is not None}
        self.nodes.append(helper.make_node(op_type, given, names, domain=domain, **kept))
        for i, name in enumerate(names):
            self.dtypes[name] = found.get(i)
        if dtype is not None:
            self.dtypes[names[0]] = dtype
        self.domains.add(domain)
        return names[0] if outputs is None else tuple(names)

    def cast(self, name: str, dtype: str) -> str:
        """Cast a value to a dtype; return it unchanged if it has that dtype."""
        if self.dtypes.get(name) == dtype:
            return name
        saturate = 0 if dtype.startswith("float8") and self.opset >= 19 else None
        to = element_type(dtype)
        return str(self.node("Cast", name, to=to, saturate=saturate, dtype=dtype))

    def const(self, value: Any, dtype: str | None = None) -> str:
        """Add a constant and return its name."""
        array = np.asarray(value) if dtype is None else np.asarray(value).astype(numpy_dtype(dtype))
        dtype = array_dtype(array)
        key = (dtype, array.shape, array.tobytes()) if array.size <= MAX_SHARED else None
        if key in self._shared:
            return self._shared[key]
        name = self.place(array, self.take("constant"))
        if key is not None:
            self._shared[key] = name
        return name

    def ints(self, values: Iterable[int]) -> str:
        """Add an int64 vector and return its name."""
        return self.const(np.array(list(values), np.int64))

    def number(self, value: float, like: str) -> str:
        """Add a scalar constant with the dtype of a value and return its name."""
        dtype = self.dtypes.get(like)
        if dtype is None:
            raise DeclinedError("the dtype of the value must be known")
        return self.const(value, dtype)

    def tensor(self, array: Array) -> TensorProto:
        """Convert an array to a tensor attribute."""
        return numpy_helper.from_array(array)

    def place(self, array: Array, name: str) -> str:
        """Add an initializer and return its name."""
        self.arrays[name] = array
        self.dtypes[name] = array_dtype(array)
        return name

    def vector(self, items: Sequence[Any]) -> str:
        """Return the name of an int64 vector composed of integers and one-element values."""
        if all(isinstance(item, int) for item in items):
            return self.ints(items)
        parts = [item if isinstance(item, str) else self.ints([item]) for item in items]
        return parts[0] if len(parts) == 1 else str(self.node("Concat", *parts, axis=0))

    def take(self, name: str) -> str:
        """Return an unused graph name: the given name, or that name with a suffix."""
        unique, i = name, self._counts.get(name, 0)
        while unique in self.taken:
            unique, i = f"{name}_{i}", i + 1
        self._counts[name] = i
        self.taken.add(unique)
        return unique
