"""NVRTC compiles the kernels of pass-only operators, which the operator table does not contain."""

from __future__ import annotations

import pytest

from opwright_cuda.compile.nvrtc import Nvrtc
from opwright_cuda.dtypes import CTYPES, FLOATS, compute_type
from opwright_cuda.kernels.elementwise_chain import Step, operands_of, write_functor
from opwright_cuda.kernels.optimizers import RULES
from opwright_cuda.source import Source, own_source
from opwright_std.passes.elementwise import KINDS

pytestmark = pytest.mark.grid(4)

UPDATES = own_source("optimizers.cu", ("-fmad=false",))
STEPS = [
    Step("Scale", [0], [2.0, 1.0]),
    Step("GeluTanhGrad", [2, 1], []),
    Step("Elu", [3], [0.5]),
    Step("Add", [4, 2], []),
]


def assert_compiles(source: Source, expressions: list[str]) -> None:
    image = Nvrtc().compile(source, expressions, "sm_90")
    assert image.data.startswith(b"\x7fELF")
    assert len(set(image.names)) == len(expressions)


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
def test_updates_of_many_parameters_compile(kind: str) -> None:
    rule = RULES[kind]
    tables = [f"update<{rule.name}, {CTYPES[dtype]}, {rule.most}>" for dtype in FLOATS]
    assert_compiles(UPDATES, tables)


def test_each_functor_has_one_operand_per_input_listed_in_the_pass() -> None:
    given = {op_type: len(kind.inputs) for op_type, kind in KINDS.items()}
    assert {op_type: operands_of(op_type) for op_type in KINDS} == given


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_chain_compiles(dtype: str) -> None:
    ctype = CTYPES[dtype]
    source = own_source("elementwise.cu").with_snippet(write_functor(STEPS, 2, dtype))
    inputs = f"Inputs<{ctype}, {ctype}>"
    flat = f"elementwise_flat<Chain, {ctype}, {inputs}, 2u, 2, 2>"
    assert_compiles(
        source, [flat, f"elementwise_strided<Chain, {ctype}, {inputs}, uint32_t, 2u, 2>"]
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_loss_and_bias_gradients_compile(dtype: str) -> None:
    ctype, computed = CTYPES[dtype], compute_type(dtype)
    teams = (f"KeptLine<LaneTeam, {computed}, 8, 2>", f"StreamedLine<BlockTeam, {computed}, 2>")
    losses = [f"class_loss_and_grad_lines<{team}, {ctype}>" for team in teams]
    assert_compiles(own_source("losses.cu"), losses)
    grads = [f"derivative_and_sums<{name}Grad, {ctype}>" for name in ("Relu", "Sigmoid", "Tanh")]
    assert_compiles(own_source("bias_activation_grad.cu"), grads)


@pytest.mark.parametrize(
    ("dtype", "of_channels"),
    [*((dtype, CTYPES[dtype]) for dtype in FLOATS), ("float16", "float"), ("bfloat16", "float")],
)
def test_batch_norm_with_residual_and_activation_compiles(dtype: str, of_channels: str) -> None:
    ctype, computed = CTYPES[dtype], compute_type(dtype)
    teams = {"columns": "ColumnTeam<2>", "lines": f"StreamedLine<BlockTeam, {computed}, 2>"}
    of_batch_norm = [f"batch_statistics<{ctype}, {of_channels}>"] + [
        f"sums_{kind}<{team}, {ctype}, {of_channels}, Source::{source}>"
        for kind, team in teams.items()
        for source in ("kAnew", "kOut")
    ]
    assert_compiles(own_source("batch_norm.cu"), of_batch_norm)
    inputs = ", ".join([ctype] * 2 + [of_channels] * 4)
    residual = f"Normalize<{ctype}, true>, {ctype}, Inputs<{inputs}>"
    grad_inputs = ", ".join([*[ctype] * 2, *[of_channels] * 3, computed, computed, of_channels])
    grad = f"NormalizeGrad<{ctype}>, {ctype}, Inputs<{grad_inputs}>"
    assert_compiles(
        own_source("elementwise.cu"),
        [
            f"elementwise_columns<{residual}, 0u, {0b111100}u, 2>",
            f"elementwise_columns<{grad}, 0u, {0b11111100}u, 2>",
            f"elementwise_strided<{grad}, uint32_t, {0b11111100}u, 2>",
        ],
    )
