"""An operator and its kernels, for tests that fill registries manually."""

from __future__ import annotations

from opwright.op import OpMaker, grad_op, same_shape_as
from opwright.packages import Package, PluginReport
from opwright.plugin import PluginFailure
from opwright.registry import KernelRegistry, OpRegistry

ACME = Package("acme", "opwright-acme", "1.0")
OTHER = Package("other", "opwright-other", "2.0")
STD = Package("std", "opwright-std", "0.1")
FAILED = PluginFailure(
    Package("cuda", "opwright-cuda", "0.1"),
    "ModuleNotFoundError: No module named 'cupy'",
    "",
    'pip install "opwright[cuda]"',
)

SWISH = (
    OpMaker("acme.swish")
    .add_comment("Swish, out = x * sigmoid(beta * x).")
    .add_input("x", "any shape, float")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("beta", float, "steepness")
    .default(1.0)
    .greater_than(0.0)
    .build(infer_shape=same_shape_as("x"), gradient=grad_op("acme.swish_grad", needs=["x"]))
)


def swish(x, out, *, beta):
    raise NotImplementedError


class PreparedSwish:
    @classmethod
    def prepare(cls, ctx):
        return cls()

    def __call__(self, x, out):
        raise NotImplementedError


def wrong(x, out):
    raise NotImplementedError


NUMBER = 3


def make_ops(report: PluginReport | None = None) -> OpRegistry:
    ops = OpRegistry(report)
    ops.add("acme.swish", SWISH, ACME)
    return ops


def make_kernels(report: PluginReport | None = None) -> KernelRegistry:
    return KernelRegistry(make_ops(report), report)
