"""In-place updates of one parameter, or of many in one launch.

A launch passes a table of addresses as a kernel parameter; each block looks up one parameter in the
table and updates it. Every block reads the scalar states, so these are advanced in a separate
launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES, ITEM_BYTES
from opwright_cuda.kernels.elementwise import BLOCKS_PER_MULTIPROCESSOR, THREADS
from opwright_cuda.kernels.lines import VECTOR_BYTES
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct, count_of
from opwright_cuda.source import Source, own_source

PARAMETER_BYTES: Final = 4096
"""Maximum bytes of kernel parameters."""

_NO_BLOCK: Final = 2**32 - 1


class Rule(NamedTuple):
    """An optimizer.

    Attributes
    ----------
    name : str
        The template in update_rules.h or adaptive_rules.h.
    states : tuple of str
        Slots with the shape of the parameter.
    scalars : tuple of str
        Slots of one number per parameter.
    attributes : tuple of str
        Names in the order of ``Attributes``; absent attributes are 0.
    """

    name: str
    states: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()

    @property
    def most(self) -> int:
        """Number of parameters that fit into one launch."""
        tensors = 2 + len(self.states)
        each = 8 * (tensors + max(len(self.scalars), 1)) + 8 + 4 + 1
        others = 4 * 8 + 16 + 8 + 16  # attributes, rate, chunk and alignment
        return (PARAMETER_BYTES - others) // each


_MOMENTS: Final = ("moment1", "moment2")
_POWERS: Final = ("beta1_power", "beta2_power")
_ADAM: Final = ("beta1", "beta2", "epsilon")
_DECAY: Final = "weight_decay"
_PENALTIES: Final = ("l1", "l2")
_RMSPROP: Final = ("rho", "epsilon", "momentum")
RULES: Final = {
    "sgd": Rule("Sgd", attributes=(_DECAY,)),
    "momentum": Rule("Momentum", ("velocity",), (), ("mu", "nesterov")),
    "lion": Rule("Lion", ("moment",), (), ("beta1", "beta2", _DECAY)),
    "adam": Rule("Adam", _MOMENTS, _POWERS, _ADAM),
    "adamw": Rule("Adam", _MOMENTS, _POWERS, (*_ADAM, _DECAY)),
    "adamax": Rule("Adamax", ("moment", "infinity_norm"), ("beta1_power",), _ADAM),
    "nadam": Rule("Nadam", _MOMENTS, ("step", "mu_product"), (*_ADAM, "momentum_decay")),
    "radam": Rule("Radam", _MOMENTS, ("step",), _ADAM),
    "adagrad": Rule("Adagrad", ("squares",), (), ("epsilon",)),
    "adadelta": Rule("Adadelta", ("mean_square", "mean_update"), (), ("rho", "epsilon")),
    "rmsprop": Rule("Rmsprop", ("mean_square",), (), _RMSPROP),
    "proximal_gd": Rule("ProximalGd", (), (), _PENALTIES),
    "proximal_adagrad": Rule("ProximalAdagrad", ("squares",), (), (*_PENALTIES, "epsilon")),
    "ftrl": Rule("Ftrl", ("squares", "linear"), (), _PENALTIES),
}
"""The rule of each type, and of ``std.multi_<type>``."""


def _rule_of(ctx: PrepareContext) -> Rule:
    """Return the rule of an operator; for rmsprop, the rule depends on the given states."""
    rule = RULES[ctx.op_type.removeprefix("std.multi_")]
    if rule.name != "Rmsprop":
        return rule
    for slot, word in (("mean_grad", "Centered"), ("velocity", "Momentum")):
        if ctx.inputs[slot]:
            rule = rule._replace(name=rule.name + word, states=(*rule.states, slot))
    return rule


def optimizer_source(name: str) -> Source:
    """Return a source file with options that make its kernels round as on the CPU."""
    return own_source(name, ("-fmad=false",))


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Update the parameters, then the scalars."""
    rule = _rule_of(ctx)
    metas = ctx.inputs["param"]
    sizes = [count_of(meta) for meta in metas]
    chunk = _chunk(plan, sum(sizes), metas[0].dtype)
    most = 1 if len(metas) == 1 else rule.most
    expression = f"update<{rule.name}, {CTYPES[metas[0].dtype]}, {most}>"
    attributes = attributes_of(ctx, rule.attributes)
    rate = Struct(plan.input("learning_rate"), np.int32(is_double(ctx, "learning_rate")))
    filled = [i for i, n in enumerate(sizes) if n]
    for listed in _parts(filled, most):
        table, n_blocks = _table(ctx, plan, rule, listed, chunk, most)
        plan.launch(
            optimizer_source("optimizers.cu"),
            expression,
            n_blocks,
            THREADS,
            [table, attributes, rate, np.int64(chunk)],
        )
    if rule.scalars:
        launch_advance(ctx, plan, rule, attributes)


def attributes_of(ctx: PrepareContext, names: Sequence[str]) -> Struct:
    """Return ``Attributes`` of update_rules.h."""
    values = [float(ctx.attrs[name]) for name in names]
    return Struct(np.array([*values, *[0.0] * (4 - len(values))], np.float64))


def _chunk(plan: LaunchPlan, n: int, dtype: str) -> int:
    """Return the elements per block: complete vectors, but few enough to balance the GPU load."""
    step = THREADS * VECTOR_BYTES // ITEM_BYTES[dtype]
    blocks = plan.gpu.multiprocessors * BLOCKS_PER_MULTIPROCESSOR
    return max(-(-n // (blocks * step)), 1) * step


def is_double(ctx: PrepareContext, slot: str, index: int = 0) -> bool:
    """Return whether an input is float64."""
    return ctx.inputs[slot][index].dtype == "float64"


def _parts(listed: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    return (listed[i : i + most] for i in range(0, len(listed), most))


def _filled(listed: Sequence[Any], most: int, rest: Any) -> list[Any]:
    return [*listed, *[rest] * (most - len(listed))]


def _table(
    ctx: PrepareContext, plan: LaunchPlan, rule: Rule, listed: Sequence[int], chunk: int, most: int
) -> tuple[Struct, int]:
    """Return ``Updates`` of the listed parameters, and their number of blocks."""
    pointers: list[Pointer | None] = []
    pointers += _filled([plan.output("param_out", i) for i in listed], most, None)
    pointers += _filled([plan.input("grad", i) for i in listed], most, None)
    for slot in rule.states:
        pointers += _filled([plan.output(f"{slot}_out", i) for i in listed], most, None)
    for slot in rule.scalars:
        pointers += _filled([plan.input(slot, i) for i in listed], most, None)
    if not rule.scalars:
        pointers += [None] * most
    sizes = [count_of(ctx.inputs["param"][i]) for i in listed]
    ends = np.cumsum([-(-n // chunk) for n in sizes]).tolist()
    wide = [double_bits(ctx, rule, i) for i in listed]
    table = Struct(
        *pointers,
        np.array(_filled(sizes, most, 0), np.int64),
        np.array(_filled([0, *ends[:-1]], most, _NO_BLOCK), np.uint32),
        np.array(_filled(wide, most, 0), np.uint8),
    )
    return table, int(ends[-1])


def launch_advance(ctx: PrepareContext, plan: LaunchPlan, rule: Rule, attributes: Struct) -> None:
    """Add the launch that advances every scalar."""
    count = len(ctx.inputs["param"])
    each = 8 * len(rule.scalars) + 1
    most = 1 if count == 1 else (PARAMETER_BYTES - 64) // each
    for listed in _parts(range(count), most):
        pointers: list[Argument] = []
        for slot in rule.scalars:
            pointers += _filled([plan.output(f"{slot}_out", i) for i in listed], most, None)
        wide = [double_bits(ctx, rule, i) for i in listed]
        table = Struct(*pointers, np.array(_filled(wide, most, 0), np.uint8))
        n = len(listed)
        arguments: list[Argument] = [table, attributes, np.int32(n)]
        source = optimizer_source("optimizers.cu")
        plan.launch(source, f"advance<{rule.name}, {most}>", -(-n // 32), 32, arguments)


def double_bits(ctx: PrepareContext, rule: Rule, index: int) -> int:
    """Return a bit mask of the scalars of a parameter that are float64."""
    return sum(is_double(ctx, slot, index) << bit for bit, slot in enumerate(rule.scalars))


UPDATE: Final = Kernel(_fill_in)
"""The kernel for every optimizer of `RULES`."""
