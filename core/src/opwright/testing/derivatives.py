"""A gradient kernel and the operator that it differentiates, on inputs of the latter."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.errors import OpwrightError
from opwright.gradient_rules import grad_name
from opwright.kernel import Refuse
from opwright.registry import KernelEntry
from opwright.testing.context import CheckContext
from opwright.testing.sample import Array, Sample

Outputs = dict[str, list[Array]]

_RUN_ERRORS: Final = (Refuse, OpwrightError)


class Derivative:
    """A gradient kernel, and a kernel of the operator that it differentiates.

    Parameters
    ----------
    entry : KernelEntry
        The gradient kernel.
    sample : Sample
        Of the gradient operator, with the sample of the operator it belongs to.
    context : CheckContext

    Attributes
    ----------
    forward : Sample
        What the operator is given.
    slots : tuple of str
        Its inputs that have a gradient here.
    """

    def __init__(self, entry: KernelEntry, sample: Sample, context: CheckContext) -> None:
        if sample.forward is None:
            raise ValueError(f"{sample.op_type}: a gradient must have a forward sample, got none")
        self._entry = entry
        self._sample = sample
        self._context = context
        self.forward = sample.forward
        self._kernels = context.references(self.forward.op_type, sample.dtype)
        self.slots = tuple(
            slot for slot in self.forward.inputs if sample.outputs.get(grad_name(slot), 0)
        )

    def weighted(self, forward: Sample) -> list[Array] | None:
        """Return those outputs of the operator that have an ``out_grad`` here; None if nothing."""
        outputs = self.outputs(forward)
        if outputs is None:
            return None
        return [
            a for slot in outputs for a in outputs[slot] if grad_name(slot) in self._sample.inputs
        ]

    def outputs(self, forward: Sample) -> Outputs | None:
        """Return what the operator computes of other inputs of the same shapes; None if nothing."""
        for kernel in self._kernels:
            try:
                launch = self._context.launch(kernel, self.forward)
                return launch.run(inputs=forward.inputs).outputs
            except _RUN_ERRORS:
                continue
        return None

    def gradients(self, forward: Sample, out_grad: float | None = None) -> Outputs | None:
        """Return the gradients there, by input slot, as drawn or for one number as `out_grad`."""
        outputs = self.outputs(forward)
        if outputs is None:
            return None
        inputs: dict[str, tuple[Array, ...]] = {}
        for slot, arrays in self._sample.inputs.items():
            if slot in forward.inputs or slot in outputs:
                inputs[slot] = forward.inputs.get(slot) or tuple(outputs[slot])
            elif out_grad is None:
                inputs[slot] = arrays
            else:
                inputs[slot] = tuple(np.full_like(array, out_grad) for array in arrays)
        try:
            launch = self._context.launch(self._entry, self._sample)
            found = launch.run(inputs=inputs).outputs
        except _RUN_ERRORS:
            return None
        return {slot: found[grad_name(slot)] for slot in self.slots}

    def is_elementwise(self, slot: str) -> bool:
        """Tell whether each element of the outputs depends on the one in its place of an input."""
        arrays = self.forward.inputs[slot]
        if len(arrays) != 1 or not arrays[0].size:
            return False
        changed = np.array(arrays[0])
        changed.reshape(-1)[0] *= changed.dtype.type(0.75)
        inputs = {**self.forward.inputs, slot: (changed,)}
        plain = self.weighted(self.forward)
        moved = self.weighted(self.forward.with_inputs(inputs, f"another {slot}"))
        if not plain or not moved:
            return False
        return all(
            a.shape == changed.shape
            and a.dtype == changed.dtype
            and a.reshape(-1)[1:].tobytes() == b.reshape(-1)[1:].tobytes()
            for a, b in zip(plain, moved, strict=True)
        )

    def is_affine(self, slot: str) -> bool:
        """Tell whether the outputs are ``factors * x + rest`` of an input.

        Then f(x) + f(-x) is twice f(0).
        """
        arrays = self.forward.inputs[slot]
        sides = []
        for sign in (1, -1, 0):
            changed = tuple(array * array.dtype.type(sign) for array in arrays)
            inputs = {**self.forward.inputs, slot: changed}
            side = self.weighted(self.forward.with_inputs(inputs, f"{sign} * {slot}"))
            if side is None:
                return False
            sides.append(side)
        pairs = zip(*sides, strict=True)
        return all(
            np.allclose(up + down, 2 * zero, rtol=1e-4, atol=1e-4) for up, down, zero in pairs
        )
