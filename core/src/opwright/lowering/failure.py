"""The error of a failed step: names its operator, kernel, values, and the updates made so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opwright.errors import KernelError, OpwrightError, OutOfMemoryError
from opwright.foreign import describe_error
from opwright.lowering.graph.values import LoweredOp, Value


class StepErrors:
    """Creates the exception for a failed step of a plan, without a reference to the plan."""

    def __init__(
        self, ops: Sequence[LoweredOp], device: str, composites: Mapping[int, str]
    ) -> None:
        self.ops = ops  # of the plan; a step's ``op_index`` is a position in it
        self.device = device
        self.composites = composites  # types by index in the network

    def fail(self, position: int, message: str, cause: BaseException | None) -> BaseException:
        """Return the exception for the step at this position of the plan."""
        if not 0 <= position < len(self.ops):
            return KernelError(f"plan: {message}")
        op = self.ops[position]
        if isinstance(cause, OpwrightError) and op.children:
            return cause  # the body's error names the operator that failed
        return self._error(op, "its kernel", message, cause, self._written_before(position))

    def fail_bind(self, position: int, message: str, cause: BaseException | None) -> BaseException:
        """Return the exception for a kernel that could not be bound to the plan's memory."""
        done = "; no operator of its plan has run"
        return self._error(self.ops[position], "the bind of its kernel", message, cause, done)

    def _error(
        self, op: LoweredOp, place: str, message: str, cause: BaseException | None, done: str
    ) -> OpwrightError:
        kernel = "" if op.entry is None else f" {op.entry.library!r} of {op.entry.package.label}"
        reason = message if cause is None else describe_error(cause)
        whole = self.composites.get(op.index, op.type)
        part = "" if whole == op.type else f"its part {op.type}, in "
        text = (
            f"{whole}[{op.device or self.device}]: operator {op.index} failed in "
            f"{part}{place}{kernel}, got {reason}; {_values(op)}{done}"
        )
        error = (OutOfMemoryError if isinstance(cause, MemoryError) else KernelError)(text)
        error.__cause__ = cause
        error.outputs = tuple(value.name for value in op.writes())
        return error

    def _written_before(self, position: int) -> str:
        names = dict.fromkeys(
            value.name for op in self.ops[:position] for value in op.writes() if _lasts(value)
        )
        if not names:
            return "; no variable in the scope was changed"
        listed = ", ".join(list(names)[:8]) + (", …" if len(names) > 8 else "")
        return f"; variables that earlier operators had already updated: {listed}"


def _values(op: LoweredOp) -> str:
    inputs = ", ".join(f"{value.name} {value.meta}" for slot in op.inputs for value in slot)
    outputs = ", ".join(f"{value.name} {value.meta}" for value in op.writes())
    return f"inputs: {inputs or 'none'}; outputs: {outputs or 'none'}"


def _lasts(value: Value) -> bool:
    external = value.buffer.root().external
    return external is not None and external.lasts
