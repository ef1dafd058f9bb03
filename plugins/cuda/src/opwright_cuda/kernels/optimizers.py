"""Updates of parameters where they lie: of one, or of many in one launch.

What a launch needs to know of its parameters is a parameter of the kernel itself, a table of
addresses; a block works at one parameter and finds in the table which. Powers of Adam's betas are
read by every block, so that another launch advances them.
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
"""That a kernel may have."""

_POWERS: Final = ("beta1_power", "beta2_power")
_NO_BLOCK: Final = 2**32 - 1


class Rule(NamedTuple):
    """An optimizer.

    Attributes
    ----------
    name : str
        The template in optimizers.cu.
    states : tuple of str
        Slots that are shaped like the parameter.
    powers : tuple of str
        Slots of one number for each parameter.
    attributes : tuple of str
        In the order of ``Attributes``; absent ones are 0.
    """

    name: str
    states: tuple[str, ...] = ()
    powers: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()

    @property
    def most(self) -> int:
        """How many parameters fit one launch."""
        tensors = 2 + len(self.states)
        each = 8 * (tensors + max(len(self.powers), 1)) + 8 + 4 + 1
        others = 4 * 8 + 16 + 8 + 16  # attributes, rate and chunk, and what alignment takes
        return (PARAMETER_BYTES - others) // each


_MOMENTS: Final = ("moment1", "moment2")
_BETAS: Final = ("beta1", "beta2")
_ADAM: Final = Rule("Adam", _MOMENTS, _POWERS, (*_BETAS, "epsilon", "weight_decay"))
RULES: Final = {
    "sgd": Rule("Sgd", attributes=("weight_decay",)),
    "momentum": Rule("Momentum", ("velocity",), (), ("mu", "nesterov")),
    "adam": _ADAM,
    "adamw": _ADAM,
}
"""What the operator of each type, and ``std.multi_<type>``, computes."""


def _source() -> Source:
    return own_source("optimizers.cu", ("-fmad=false",))


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Update the parameters, then the powers."""
    rule = RULES[ctx.op_type.removeprefix("std.multi_")]
    metas = ctx.inputs["param"]
    sizes = [count_of(meta) for meta in metas]
    chunk = _chunk(plan, sum(sizes), metas[0].dtype)
    most = 1 if len(metas) == 1 else rule.most
    expression = f"update<{rule.name}, {CTYPES[metas[0].dtype]}, {most}>"
    values = [float(ctx.attrs.get(name, 0.0)) for name in rule.attributes]
    attributes = Struct(np.array([*values, *[0.0] * (4 - len(values))], np.float64))
    rate = Struct(plan.input("learning_rate"), np.int32(_is_double(ctx, "learning_rate")))
    filled = [i for i, n in enumerate(sizes) if n]
    for listed in _parts(filled, most):
        table, n_blocks = _table(ctx, plan, rule, listed, chunk, most)
        plan.launch(
            _source(), expression, n_blocks, THREADS, [table, attributes, rate, np.int64(chunk)]
        )
    if rule.powers:
        _advance(ctx, plan)


def _chunk(plan: LaunchPlan, n: int, dtype: str) -> int:
    """How many elements a block takes: as few as keep the whole GPU busy to the end, in vectors."""
    step = THREADS * VECTOR_BYTES // ITEM_BYTES[dtype]
    blocks = plan.gpu.multiprocessors * BLOCKS_PER_MULTIPROCESSOR
    return max(-(-n // (blocks * step)), 1) * step


def _is_double(ctx: PrepareContext, slot: str, index: int = 0) -> bool:
    return ctx.inputs[slot][index].dtype == "float64"


def _parts(listed: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    return (listed[i : i + most] for i in range(0, len(listed), most))


def _filled(listed: Sequence[Any], most: int, rest: Any) -> list[Any]:
    return [*listed, *[rest] * (most - len(listed))]


def _table(
    ctx: PrepareContext, plan: LaunchPlan, rule: Rule, listed: Sequence[int], chunk: int, most: int
) -> tuple[Struct, int]:
    """Return ``Updates`` of some of the parameters, and how many blocks they take."""
    pointers: list[Pointer | None] = []
    pointers += _filled([plan.output("param_out", i) for i in listed], most, None)
    pointers += _filled([plan.input("grad", i) for i in listed], most, None)
    for slot in rule.states:
        pointers += _filled([plan.output(f"{slot}_out", i) for i in listed], most, None)
    for slot in rule.powers:
        pointers += _filled([plan.input(slot, i) for i in listed], most, None)
    if not rule.powers:
        pointers += [None] * most
    sizes = [count_of(ctx.inputs["param"][i]) for i in listed]
    ends = np.cumsum([-(-n // chunk) for n in sizes]).tolist()
    wide = [
        sum(_is_double(ctx, slot, i) << bit for bit, slot in enumerate(rule.powers)) for i in listed
    ]
    table = Struct(
        *pointers,
        np.array(_filled(sizes, most, 0), np.int64),
        np.array(_filled([0, *ends[:-1]], most, _NO_BLOCK), np.uint32),
        np.array(_filled(wide, most, 0), np.uint8),
    )
    return table, int(ends[-1])


def _advance(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Multiply every power by its beta."""
    listed = [(slot, i) for slot in _POWERS for i in range(len(ctx.inputs[slot]))]
    most = 2 if len(listed) == 2 else (PARAMETER_BYTES - 16) // 17
    for start in range(0, len(listed), most):
        part = listed[start : start + most]
        pointers: list[Argument] = [plan.output(f"{slot}_out", i) for slot, i in part]
        betas = [ctx.attrs[slot.removesuffix("_power")] for slot, _ in part]
        wide = [_is_double(ctx, slot, i) for slot, i in part]
        table = Struct(
            *_filled(pointers, most, None),
            np.array(_filled(betas, most, 1.0), np.float64),
            np.array(_filled(wide, most, False), np.uint8),
        )
        n = len(part)
        plan.launch(_source(), f"advance<{most}>", -(-n // 32), 32, [table, np.int32(n)])


UPDATE: Final = Kernel(_fill_in)
"""Every optimizer of `RULES`."""
