"""The test cases of the standard operators, as calls of `opwright_jax.ops` on JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from case import Case
from one_operator import definition_of, graded_slots
from table import first_cases

import opwright as ow
from opwright.op import GradOp, graded_outputs
from opwright_jax import ops


class Sample(NamedTuple):
    """A call, with its arrays in order and the slot of each array."""

    case: Case
    slots: tuple[str, ...]
    arrays: tuple[Any, ...]

    def call(self, module: Any, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Call the operator in a module such as `opwright.ops` on these arrays."""
        inputs: dict[str, Any] = {}
        for slot, array in zip(self.slots, arrays, strict=True):
            if self.case.is_list(slot):
                inputs.setdefault(slot, []).append(array)
            else:
                inputs[slot] = array
        results = find_function(self.case.op, module)(**inputs, **self.case.attrs)
        return tuple(results) if isinstance(results, (tuple, list)) else (results,)

    def run(self, *arrays: Any) -> tuple[Any, ...]:
        """Call the operator from `opwright_jax.ops`."""
        return self.call(ops, arrays)

    def losses(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Return the results except state such as running statistics, which has no gradient."""
        results = self.run(*arrays)
        definition = definition_of(self.case)
        proto, rule = definition.proto, definition.gradient
        slots = [slot for slot in proto.outputs if not slot.intermediate]
        if len(slots) != len(results) or not isinstance(rule, GradOp):
            return results
        graded = {slot.name for slot in graded_outputs(proto, rule)}
        return [r for r, slot in zip(results, slots, strict=True) if slot.name in graded]

    def graded(self) -> list[int]:
        """Return the indices of the arrays that have a gradient."""
        graded = graded_slots(self.case, self.case.make_inputs("float64"))
        pairs = enumerate(zip(self.slots, self.arrays, strict=True))
        return [i for i, (s, a) in pairs if s in graded and jnp.issubdtype(a.dtype, jnp.floating)]

    def scalar(self) -> tuple[Callable[..., Any], list[Any]]:
        """Return a function that sums weighted float results, and its differentiable arguments."""
        places = self.graded()

        def total(*values: Any) -> Any:
            given = list(self.arrays)
            for place, value in zip(places, values, strict=True):
                given[place] = value
            floats = [r for r in self.losses(given) if jnp.issubdtype(r.dtype, jnp.floating)]
            weights = [np.cos(np.arange(r.size, dtype=r.dtype)).reshape(r.shape) for r in floats]
            return sum(
                (jnp.sum(r * w) for r, w in zip(floats, weights, strict=True)), jnp.zeros(())
            )

        return total, [self.arrays[place] for place in places]


def find_function(op_type: str, module: Any) -> Callable[..., Any]:
    """Return the function of an operator in a module such as `opwright.ops`."""
    for part in op_type.split("."):
        module = getattr(module, part)
    function: Callable[..., Any] = module
    return function


def make_sample(case: Case, dtype: str) -> Sample:
    """Return a case as a call."""
    pairs = [
        (slot, jnp.asarray(np.array(array)))
        for slot, arrays in case.make_inputs(dtype).items()
        for array in arrays
    ]
    if definition_of(case).random and "step" not in dict(pairs):
        pairs.append(("step", jnp.asarray([3])))
    slots, arrays = zip(*pairs, strict=True) if pairs else ((), ())
    return Sample(case, slots, arrays)


def is_static(case: Case) -> bool:
    """Return whether the result shapes are independent of values."""
    definition = definition_of(case)
    return not definition.proto.dynamic_output and not definition.proto.has_blocks


def callable_cases() -> list[Case]:
    """Return a case of each operator that JAX can call."""
    types = set(ow.current_context().ops.types())
    return [case for case in first_cases() if case.op in types and is_static(case)]


def copies(value: Any, n: int) -> Any:
    """Return a batch of `n` examples; float examples differ from each other."""
    if not jnp.issubdtype(value.dtype, jnp.floating):
        return jnp.stack([value] * n)
    return jnp.stack([value * (1 + i / 64) for i in range(n)])


def leaves(tree: Any) -> list[Any]:
    """Return the arrays of a result."""
    return jax.tree_util.tree_leaves(tree)
