"""Computes operators and their gradients on the same inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

import numpy as np

from opwright.errors import OpwrightError
from opwright.kernel import KernelEntry, Refuse
from opwright.op import OpDefinition, grad_name
from opwright_kit.testing.gradients.training import build_training, compile_block, differentiate
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.samples.sample import Array, Sample

Outputs = dict[str, list[Array]]

_RUN_ERRORS: Final = (Refuse, OpwrightError)


class Derivative(ABC):
    """An operator and its gradient on inputs with the shapes of one sample.

    Attributes
    ----------
    forward : Sample
        The arguments of the operator.
    slots : tuple of str
        Its inputs that have a gradient.
    """

    forward: Sample
    slots: tuple[str, ...]

    @abstractmethod
    def outputs(self, forward: Sample) -> Outputs | None:
        """Return the operator's outputs for other inputs of the same shapes, or None on failure."""

    @abstractmethod
    def weighted(self, forward: Sample) -> list[Array] | None:
        """Return the outputs to differentiate, or None if the operator fails."""

    @abstractmethod
    def gradients(self, forward: Sample, out_grad: float | None = None) -> Outputs | None:
        """Return the gradients by input slot, for the drawn `out_grad` or for a constant."""

    def is_elementwise(self, slot: str) -> bool:
        """Return whether each output element depends only on the input element at its position."""
        arrays = self.forward.inputs[slot]
        if len(arrays) != 1 or not arrays[0].size:
            return False
        # The first and the last element may have neighbors on only one side.
        places = {0, arrays[0].size // 2, arrays[0].size - 1}
        return all(self._moves_alone(slot, place) for place in sorted(places))

    def _moves_alone(self, slot: str, place: int) -> bool:
        """Return whether a changed element of an input changes outputs only at its position."""
        changed = np.array(self.forward.inputs[slot][0])
        changed.reshape(-1)[place] *= changed.dtype.type(0.75)
        inputs = {**self.forward.inputs, slot: (changed,)}
        plain = self.weighted(self.forward)
        moved = self.weighted(self.forward.with_inputs(inputs, f"another {slot}"))
        if not plain or not moved:
            return False
        return all(
            a.shape == changed.shape
            and a.dtype == changed.dtype
            and np.delete(a, place).tobytes() == np.delete(b, place).tobytes()
            for a, b in zip(plain, moved, strict=True)
        )

    def is_affine(self, slot: str) -> bool:
        """Return whether the outputs are ``factors * x + rest``, where x is this input.

        For such outputs, f(x) + f(-x) is twice f(0).
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


class KernelDerivative(Derivative):
    """A gradient kernel, and a kernel of the operator that it differentiates.

    Parameters
    ----------
    entry : KernelEntry
        The gradient kernel.
    sample : Sample
        A sample of the gradient operator.
    forward : Sample
        A sample of the operator.
    context : CheckContext
    """

    def __init__(
        self, entry: KernelEntry, sample: Sample, forward: Sample, context: CheckContext
    ) -> None:
        self.forward = forward
        self.slots = tuple(s for s in forward.inputs if sample.outputs.get(grad_name(s), 0))
        self._entry = entry
        self._sample = sample
        self._context = context
        self._kernels = context.references(forward.op_type, sample.dtype)

    def weighted(self, forward: Sample) -> list[Array] | None:  # noqa: D102
        outputs = self.outputs(forward)
        if outputs is None:
            return None
        return [
            a for slot in outputs for a in outputs[slot] if grad_name(slot) in self._sample.inputs
        ]

    def outputs(self, forward: Sample) -> Outputs | None:  # noqa: D102
        for kernel in self._kernels:
            try:
                launch = self._context.launch(kernel, self.forward)
                return launch.run(inputs=forward.inputs).outputs
            except _RUN_ERRORS:
                continue
        return None

    def gradients(self, forward: Sample, out_grad: float | None = None) -> Outputs | None:  # noqa: D102
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
            gradients = launch.run(inputs=inputs).outputs
        except _RUN_ERRORS:
            return None
        return {slot: gradients[grad_name(slot)] for slot in self.slots}


class ProgramDerivative(Derivative):
    """A float64 program of one operator, with the gradients that ``append_backward`` writes.

    Parameters
    ----------
    definition : OpDefinition
    sample : Sample
    seed : int
        The seed of the weights in place of `out_grad`.
    """

    def __init__(self, definition: OpDefinition, sample: Sample, seed: int) -> None:
        self.forward = sample
        self._training = build_training(definition, sample, seed)
        pairs = [] if self._training is None else differentiate(self._training)
        names = {variable.name: gradient.name for variable, gradient in pairs}
        self._names = {
            slot: [names.get(f"{slot}_{i}", "") for i in range(len(arrays))]
            for slot, arrays in sample.inputs.items()
        }
        self.slots = tuple(
            slot for slot, gradients in self._names.items() if gradients and all(gradients)
        )
        if self._training is not None and self.slots:
            block, feeds = self._training.block, self._training.feeds
            gradient_names = [name for slot in self.slots for name in self._names[slot]]
            self._compute = compile_block(block, feeds, list(self._training.weights))
            self._differentiate = compile_block(block, feeds, gradient_names)

    def outputs(self, forward: Sample) -> Outputs | None:  # noqa: D102
        arrays = self.weighted(forward)
        return None if arrays is None else {f"out_{i}": [a] for i, a in enumerate(arrays)}

    def weighted(self, forward: Sample) -> list[Array] | None:  # noqa: D102
        try:
            return self._compute(**self._feeds(forward, None))
        except OpwrightError:
            return None

    def gradients(self, forward: Sample, out_grad: float | None = None) -> Outputs | None:  # noqa: D102
        try:
            arrays = iter(self._differentiate(**self._feeds(forward, out_grad)))
        except OpwrightError:
            return None
        return {slot: [next(arrays) for _ in self._names[slot]] for slot in self.slots}

    def _feeds(self, forward: Sample, out_grad: float | None) -> dict[str, Array]:
        if self._training is None:
            return {}
        feeds = dict(self._training.feeds)
        for slot, arrays in forward.inputs.items():
            feeds.update({f"{slot}_{i}": array for i, array in enumerate(arrays)})
        for name in self._training.weights.values() if out_grad is not None else ():
            feeds[name] = np.full_like(feeds[name], out_grad)
        return feeds
