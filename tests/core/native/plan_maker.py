"""A small wrapper around PlanBuilder that makes plan tests readable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from opwright import _runtime as rt
from opwright.op import dtype_to_code


class StepError(RuntimeError):
    """The error raised by plans in these tests."""


class Describe:
    """Describes a failure by the operator index and the message."""

    def fail(self, op_index: int, message: str, cause: BaseException | None) -> BaseException:
        return StepError(f"operator {op_index}: {message}")


class PlanMaker:
    """Builds a plan from values given by shape, and allocates arena space sequentially."""

    def __init__(self, name: str = "plan", device: rt.Device | None = None) -> None:
        self.device = device or rt.host_device()
        self.builder = rt.PlanBuilder(self.device, name)
        self.space = 0
        self.n_ops = 0

    def external(
        self, role: int, name: str, shape: tuple[int, ...], dtype: str = "float32", **how: Any
    ) -> int:
        ext = self.builder.external(role, name, **how)
        return self.builder.value(dtype_to_code(dtype), shape, rt.EXTERNAL, ext)

    def feed(self, name: str, shape: tuple[int, ...] = (4,), dtype: str = "float32") -> int:
        return self.external(rt.FEED, name, shape, dtype)

    def captured(self, name: str, shape: tuple[int, ...] = (4,), dtype: str = "float32") -> int:
        return self.external(rt.CAPTURED, name, shape, dtype)

    def persistable(
        self, name: str, shape: tuple[int, ...] = (4,), dtype: str = "float32", **how: Any
    ) -> int:
        return self.external(rt.PERSISTABLE, name, shape, dtype, **how)

    def out(self, name: str, shape: tuple[int, ...] = (4,), dtype: str = "float32") -> int:
        value = self.external(rt.FETCH, name, shape, dtype)
        self.builder.fetch(value)
        return value

    def temp(self, shape: tuple[int, ...] = (4,), dtype: str = "float32") -> int:
        value = self.builder.value(dtype_to_code(dtype), shape, rt.ARENA, self.space)
        size = int(np.prod(shape, dtype=np.int64)) * 8
        self.space += -(-size // 64) * 64
        self.builder.arena_bytes = self.space
        return value

    def dynamic(self, shape: tuple[int, ...] = (-1,), dtype: str = "float32") -> int:
        return self.builder.value(dtype_to_code(dtype), shape, rt.DYNAMIC)

    def python(
        self, function: Callable[..., object], inputs: list[int], outputs: list[int], **how: Any
    ) -> None:
        prepared = rt.prepare_python(function, range(len(inputs) + len(outputs)), **how)
        self.kernel(prepared, inputs, outputs)

    def kernel(
        self, prepared: rt.Prepared, inputs: list[int], outputs: list[int], **how: Any
    ) -> None:
        n = len(inputs) + len(outputs)
        self.builder.kernel(
            prepared, inputs + outputs, range(n + 1), len(inputs), self.n_ops, **how
        )
        self.n_ops += 1

    def build(self, describe: object = None) -> rt.Plan:
        return self.builder.build(describe or Describe())


def compiled(plan: rt.Plan, *feeds: str, scope: rt.Scope | None = None) -> rt.CompiledNetwork:
    """Return a callable that always runs this plan."""
    return rt.CompiledNetwork(scope or rt.Scope(), feeds, lambda arrays: plan)


def f32(*values: float) -> np.ndarray:
    return np.array(values, "float32")
