"""PyTorch computes operators without a counterpart, and their gradients, inside a plan."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from plans import Function, Results, translated, with_plan, with_torch

import opwright as ow
from opwright.errors import AttributeValueError, DtypeError, GradientError, KernelError, ShapeError


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()


def check(function: Function, *tensors: torch.Tensor) -> Counter[str]:
    """Compare values and gradients with PyTorch; count the operators by type."""
    found = translated(function, tensors)
    types = Counter(op.type for op in found.program.global_block().ops)
    truth = with_torch(function, tensors)
    results: Results = with_plan(found, tensors, truth)
    for kind in ("outputs", "gradients"):
        for result, expected in zip(getattr(results, kind), getattr(truth, kind), strict=True):
            torch.testing.assert_close(result, expected.detach())
    return types


def text_of(name: str, arguments: list[Any], inputs: list[Any], results: list[Any]) -> str:
    """Return the call string for one call with one result."""
    return json.dumps(
        {"inputs": inputs, "calls": [[name, arguments, {}]], "taken": [[0]], "results": results}
    )


def program_of(text: str, *inputs: tuple[str, list[int]]) -> tuple[ow.Block, list[str], str]:
    """Return a block with one PyTorch call, the input names and the output name."""
    block = ow.Program().global_block()
    names = [f"x{i}" for i in range(len(inputs))]
    for name, (dtype, shape) in zip(names, inputs):
        block.create_var(name, shape, dtype, is_data=True)
    op = block.append_op("torch.call", {"x": names}, {}, {"call": text})
    return block, names, op.output("out")[0]


@pytest.fixture
def _acme() -> Iterator[None]:
    """Register custom operators with PyTorch, as a user would."""
    library = torch.library.Library("acme", "DEF")
    library.define("halves(Tensor[] xs) -> Tensor[]")
    library.define("fail(Tensor x) -> Tensor")

    def fail(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no such luck")

    for name, function, fake in (
        ("halves", lambda xs: [x / 2 for x in xs], lambda xs: [torch.empty_like(x) for x in xs]),
        ("fail", fail, torch.empty_like),
    ):
        library.impl(name, function, "CPU")
        torch.library.register_fake(f"acme::{name}", fake, lib=library)
    yield
    library._destroy()


def test_an_operator_without_a_counterpart_is_one_call() -> None:
    types = check(lambda x: torch.special.i0e(x) * 2, drawn(3, 4))
    assert types["torch.call"] == 1


def test_complex_numbers_stay_inside_one_call() -> None:
    types = check(lambda x: torch.fft.irfft(torch.fft.rfft(x).abs() * 1.0) + x[:, :2], drawn(3, 2))
    assert types["torch.call"] == 2, "rfft with abs, and irfft"


def test_parts_of_a_complex_result_are_computed_inside_the_call() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, vectors = torch.linalg.eig(x)
        return values.abs(), vectors.abs()

    assert check(function, drawn(3, 3).detach())["torch.call"] == 2


def test_a_complex_output_of_a_plan_is_refused() -> None:
    with pytest.raises(
        DtypeError,
        match=r"a plan must have a dtype that opwright supports, got .*complex",
    ):
        translated(torch.fft.rfft, [drawn(4)])


def test_each_of_several_results_has_a_gradient() -> None:
    assert check(torch.linalg.qr, drawn(3, 3))["torch.call"] == 1


def test_an_unused_result_has_no_gradient() -> None:
    check(lambda x: torch.linalg.qr(x).R, drawn(3, 3))


def test_detached_inputs_have_no_gradient() -> None:
    check(lambda x, n: torch.special.polygamma(1, x) * n, drawn(4), drawn(4, seed=1).detach())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_arrays_of_every_dtype_are_viewed_without_a_copy(dtype: torch.dtype) -> None:
    check(torch.special.i0, drawn(5, dtype=torch.float32).detach().to(dtype).requires_grad_())


def test_an_empty_tensor_is_an_input() -> None:
    check(torch.special.i0e, drawn(0, 3))


def test_a_transposed_feed_is_read_through_its_strides() -> None:
    check(torch.special.i0e, drawn(3, 4).detach().t())


@pytest.mark.usefixtures("_acme")
def test_lists_of_tensors_are_accepted_and_returned() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return torch.ops.acme.halves([x, y, x])

    assert check(function, drawn(3).detach(), drawn(2, 2).detach())["torch.call"] == 1


@pytest.mark.usefixtures("_acme")
def test_an_error_in_pytorch_names_the_operator() -> None:
    found = translated(torch.ops.acme.fail, [drawn(3).detach()])
    with pytest.raises(
        KernelError, match=r"torch.call\[cpu\].*acme.fail.*ValueError: no such luck"
    ):
        with_plan(found, [drawn(3).detach()], Results([], []))


def test_a_failed_call_can_be_repeated() -> None:
    text = text_of(
        "aten.linalg_inv.default",
        [{"input": 0}],
        [["float32", [2, 2]]],
        [["float32", [2, 2]]],
    )
    block, names, out = program_of(text, ("float32", [2, 2]))
    call = ow.Network(block).compile(names, [out])
    with pytest.raises(KernelError, match=r"aten.linalg_inv.default: .*singular"):
        call(np.zeros((2, 2), np.float32))
    np.testing.assert_array_equal(call(2 * np.eye(2, dtype=np.float32))[0], np.eye(2) / 2)


def test_a_second_derivative_is_refused() -> None:
    found = translated(torch.special.i0e, [drawn(4)])
    block = found.program.global_block()
    ((_, grad),) = ow.append_backward(found.outputs[0], [found.inputs[0]])
    with pytest.raises(
        GradientError, match="a call of PyTorch inside a plan can be differentiated only once"
    ):
        ow.append_backward(grad, [found.inputs[0]])
    assert any(op.type == "torch.call_grad" for op in block.ops)


def test_random_numbers_depend_on_the_step_and_not_on_the_pytorch_generator() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rrelu(x, 0.1, 0.9, training=True)

    x = -torch.ones(64, dtype=torch.float64).requires_grad_()
    found = translated(function, [x])
    block = found.program.global_block()
    assert [op.type for op in block.ops] == ["torch.random_call"]
    ((_, grad),) = ow.append_backward(found.outputs[0], [found.inputs[0]])
    scope = ow.Scope()
    scope.var(found.inputs[0]).borrow(x.detach())
    plan = ow.Network(block).compile([], [found.outputs[0], grad], scope=scope)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    first, second = plan(), plan()
    assert torch.equal(state, torch.get_rng_state())
    assert (first[0] != second[0]).any()
    assert ((first[0] > -0.9) & (first[0] < -0.1)).all()
    for out, gradient in (first, second):
        np.testing.assert_allclose(gradient, -out)


def test_a_saved_program_calls_pytorch_in_another_process(tmp_path: Any) -> None:
    text = text_of("aten.cumsum.default", [{"input": 0}, 0], [["float32", [3]]], [["float32", [3]]])
    block, _, out = program_of(text, ("float32", [3]))
    ow.save(tmp_path / "model", block.program, ow.Scope(), out)
    code = (
        "import sys, numpy as np, opwright as ow\n"
        "print(ow.load(sys.argv[1])(x0=np.ones(3, np.float32))[0].tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "[1.0, 2.0, 3.0]", done.stderr


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("aten.no_such.default", [], "must be registered in PyTorch, got 'aten.no_such.default'"),
        ("os.system.default", [], "must be registered in PyTorch"),
        ("aten.relu_.default", [{"input": 0}], "must not modify their arguments"),
        ({"object": "other:1"}, [], "got the key 'other:1' of another process"),
        ("aten.relu.default", [{"file": "x"}], "call must be a valid string"),
    ],
    ids=["unknown", "foreign", "in place", "object", "argument"],
)
def test_a_string_that_does_not_describe_a_call_is_refused(
    name: Any, arguments: Any, message: str
) -> None:
    metas = [["float32", [2]]]
    block, names, out = program_of(text_of(name, arguments, metas, metas), ("float32", [2]))
    with pytest.raises((AttributeValueError, KernelError), match=message):
        ow.Network(block).compile(names, [out])(np.zeros(2, np.float32))


def test_a_call_string_with_a_wrong_result_shape_is_refused() -> None:
    text = text_of("aten.relu.default", [{"input": 0}], [["float32", [2]]], [["float32", [200]]])
    block, names, out = program_of(text, ("float32", [2]))
    call = ow.Network(block).compile(names, [out])
    with pytest.raises(KernelError, match=r"must return torch.float32 \[200\].* got .*\[2\]"):
        call(np.zeros(2, np.float32))


def test_inputs_must_match_the_call_string() -> None:
    text = text_of("aten.relu.default", [{"input": 0}], [["float32", [2]]], [["float32", [2]]])
    with pytest.raises(
        ShapeError, match=r"x must match the shapes and dtypes in call, float32\[2\], got"
    ):
        program_of(text, ("float32", [3]))


def test_outputs_are_written_in_place_from_the_second_call_on() -> None:
    text = text_of("aten.exp.default", [{"input": 0}], [["float32", [2]]], [["float32", [2]]])
    block, names, out = program_of(text, ("float32", [2]))
    call = ow.Network(block).compile(names, [out])
    for i in range(4):
        x = np.full(2, i, np.float32)
        np.testing.assert_allclose(call(x)[0], np.exp(x), rtol=1e-6)


def test_autocast_around_a_plan_does_not_cast_inside_the_plan() -> None:
    text = text_of(
        "aten.mm.default",
        [{"input": 0}, {"input": 0}],
        [["float32", [2, 2]]],
        [["float32", [2, 2]]],
    )
    block, names, out = program_of(text, ("float32", [2, 2]))
    call = ow.Network(block).compile(names, [out])
    x = np.full((2, 2), 1.001, np.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        np.testing.assert_array_equal(call(x)[0], x @ x)


def test_plans_and_pytorch_with_threads_can_alternate() -> None:
    """Plans and PyTorch have separate thread pools, and neither pool waits for the other."""
    code = (
        "import torch, numpy as np, opwright as ow\n"
        "from opwright_torch.translate import translate\n"
        "from torch.fx.experimental.proxy_tensor import make_fx\n"
        "torch.set_num_threads(2); ow.set_num_threads(2)\n"
        "function = lambda x: (torch.special.i0e(x @ x) @ x,)\n"
        "graph = make_fx(function, pre_dispatch=True, tracing_mode='fake')(torch.zeros(300, 300))\n"
        "found = translate(graph.graph, graph)\n"
        "call = ow.Network(found.program.global_block()).compile(found.inputs, found.outputs)\n"
        "x = np.random.default_rng(0).normal(size=(300, 300)).astype('f')\n"
        "for _ in range(50): call(x); torch.from_numpy(x) @ torch.from_numpy(x)\n"
        "print('done')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.strip() == "done", done.stderr


def test_a_higher_order_operator_is_a_call_with_a_gradient() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda t: t.sin() * 2, lambda t: t.cos(), (x,))

    compiled = torch.compile(function, backend="opwright", fullgraph=True)
    for sign in (1, -1):
        x = (sign * torch.ones(3)).requires_grad_()
        (grad,) = torch.autograd.grad(compiled(x).sum(), x)
        (truth,) = torch.autograd.grad(function(x).sum(), x)
        torch.testing.assert_close(grad, truth)


def test_random_calls_are_reproducible_with_the_pytorch_seed() -> None:
    compiled = torch.compile(
        lambda x: torch.nn.functional.rrelu(x, training=True), backend="opwright"
    )
    x = -torch.ones(16)
    torch.manual_seed(5)
    first, second = compiled(x), compiled(x)
    torch.manual_seed(5)
    assert torch.equal(compiled(x), first)
    assert not torch.equal(first, second)


def test_unread_results_are_not_requested() -> None:
    """PyTorch's fake tensors and its kernel give the unread results different shapes."""
    weight, ids = drawn(5, 3), torch.tensor([0, 2, 2, 4])

    def function(weight: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(
            ids, weight, torch.tensor([0, 2]), scale_grad_by_freq=True
        )

    assert check(function, weight, ids)["torch.call"] == 1
