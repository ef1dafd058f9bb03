"""Runs convolutional networks with and without passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import opwright as ow
from opwright.op import dtype_to_numpy
from opwright_nn import layers

PASSES = (["fuse_conv"], ["nhwc"], ["fuse_conv", "nhwc"], None)
ops = ow.ops


class Net:
    """A network of layers on images x, with nontrivial parameters."""

    def __init__(
        self,
        write: Callable[[Any], Any],
        *,
        training: bool = False,
        dtype: str = "float32",
        shape: tuple[int, ...] = (2, 3, 9, 8),
    ) -> None:
        self.main, self.startup = ow.Program(), ow.Program()
        self.scope = ow.Scope()
        rng = np.random.default_rng(5)
        kind = dtype_to_numpy(dtype)
        self.x = rng.standard_normal(shape).astype(kind)
        with ow.program_guard(self.main, self.startup):
            x = layers.data("x", shape=[None, *shape[1:]], dtype=dtype)
            x.stop_gradient = False
            out = write(x)
            self.out = [out] if not isinstance(out, list) else out
            if training:
                loss = layers.mean(ops.square(self.out[0]))
                pairs = ow.append_backward([loss], [*self.main.parameters(), x])
                self.out = [loss, *(grad for _, grad in pairs)]
        ow.Network(self.startup.global_block()).run(self.scope)
        for variable in self.main.global_block().vars.values():
            if variable.persistable and variable.dtype == dtype:
                value = rng.uniform(0.5, 1.5, variable.shape) * rng.choice([-1, 1])
                positive = variable.name.endswith("variance")
                value = np.abs(value) if positive else value
                self.scope.var(variable.name).set(value.astype(kind))

    def run(
        self, passes: Sequence[str] | None, fetch: Sequence[Any] = ()
    ) -> tuple[list[np.ndarray], Counter[str]]:
        network = ow.Network(self.main.global_block())
        call = network.compile(
            feed=["x"], fetch=[*self.out, *fetch], scope=self.scope, passes=passes
        )
        return call(x=self.x), Counter(network.placement().types)

    def check(self, fetch: Sequence[Any] = ()) -> Counter[str]:
        """Compare runs with each choice of passes to a run without passes; count operators."""
        plain, _ = self.run([], fetch)
        types: Counter[str] = Counter()
        for passes in PASSES:
            got, types = self.run(passes, fetch)
            for a, b in zip(got, plain, strict=True):
                size = float(np.abs(b).max(initial=1.0))
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * size, err_msg=str(passes))
        return types


def parameter(name: str, shape: Sequence[int]) -> Any:
    block = ow.default_main_program().global_block()
    return block.create_var(name, shape, "float32", persistable=True, stop_gradient=False)


def conv(x: Any, filters: int = 4, kernel: int = 3, **kwargs: Any) -> Any:
    return layers.conv2d(x, filters, kernel, paddings=kernel // 2, **kwargs)


def norm(x: Any, training: bool = False, **kwargs: Any) -> Any:
    return layers.batch_norm(x, training=training, **kwargs)
