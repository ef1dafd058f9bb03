"""Tests the translator independently of its rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from plans import translated, with_plan, with_torch
from torch.fx.experimental.proxy_tensor import make_fx

import opwright as ow
import opwright_torch
from opwright_torch.translate import Decline, Rows, Translator, translate

X = torch.tensor([[1.0, -2.0], [3.0, 0.5]], requires_grad=True)


ACME = ow.plugin.Package("acme", "opwright-acme", "1.0")


@pytest.fixture
def rows() -> Iterator[Rows]:
    """Yield the table of another package; its rows take precedence over all other rows."""
    mine = Rows()
    context = ow.Context.discover()
    context.annexes.add("torch", "zz.acme", mine, ACME)
    with ow.context_guard(context):
        yield mine


def test_a_row_that_declines_leaves_no_operators(rows: Rows) -> None:
    @rows.row("aten::relu")
    def relu(t: Translator, input: ow.Variable) -> ow.Variable:
        t.op("exp", input)
        raise Decline("not today: 7")

    found = translated(torch.relu, [X])
    assert [op.type for op in found.program.global_block().ops] == ["torch.call"]
    assert [(str(d.node.target), d.reason) for d in found.declined] == [
        ("aten.relu.default", "not today: 7")
    ]


def test_a_row_whose_operator_refuses_is_declined(rows: Rows) -> None:
    rows["aten::relu"] = lambda t, input: t.op("clip", input, min=1.0, max=0.0)
    assert "min must not be above max" in translated(torch.relu, [X]).declined[0].reason


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (lambda t, x: t.op("sum", x), r"float32 \[\], but PyTorch returns float32 \[2, 2\]"),
        (
            lambda t, x: t.op("cast", x, dtype="int32"),
            r"int32 \[2, 2\], but PyTorch returns float32 \[2, 2\]",
        ),
    ],
)
def test_a_result_of_a_wrong_shape_or_dtype_is_declined(
    rows: Rows, result: Any, reason: str
) -> None:
    rows["aten::relu"] = lambda t, **named: result(t, named["input"])
    assert re.search(reason, translated(torch.relu, [X]).declined[0].reason)


def test_a_row_that_lacks_an_argument_of_the_overload_is_declined(rows: Rows) -> None:
    rows["aten::relu"] = lambda t, x: x
    assert (
        "its row does not accept these arguments" in translated(torch.relu, [X]).declined[0].reason
    )


def test_an_operator_without_a_row_is_declined(rows: Rows) -> None:
    assert (
        translated(torch.special.bessel_j0, [X]).declined[0].reason == "no table has a row for it"
    )


def test_a_row_for_an_overload_takes_precedence_over_a_row_for_its_name(rows: Rows) -> None:
    rows["aten::add"] = lambda t, input, other, alpha: t.op("exp", input)
    rows["aten::add.Scalar"] = rows["aten::add.Tensor"] = rows["aten::relu"] = (
        lambda t, input, **_: t.op("tanh", input)
    )
    found = translated(lambda x: x + x, [X])
    assert [op.type for op in found.program.global_block().ops] == ["tanh"]


def test_every_operator_has_at_most_one_row() -> None:
    tables = [entry.load() for entry in ow.current_context().annexes.entries("torch")]
    counts = Counter(name for table in tables for name in table)
    assert [name for name, count in counts.items() if count > 1] == []


def test_rows_of_a_package_added_later_are_used() -> None:
    context = ow.Context.discover()
    with ow.context_guard(context):
        assert translated(torch.special.bessel_j0, [X]).declined
        rows = {"aten::special_bessel_j0": lambda t, input: t.op("square", input)}
        context.annexes.add("torch", "acme", rows, ACME)
        found = translated(torch.special.bessel_j0, [X])
    assert [op.type for op in found.program.global_block().ops] == ["square"]


def test_composites_are_decomposed() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.diff(x * 2)

    found = translated(function, [X])
    assert not found.declined
    truth = with_torch(function, [X])
    results = with_plan(found, [X], truth)
    torch.testing.assert_close(results.outputs, truth.outputs)
    torch.testing.assert_close(results.gradients, truth.gradients)


def test_a_composite_with_an_unsupported_part_becomes_one_pytorch_call() -> None:
    found = translated(torch.linalg.svdvals, [X.detach()])
    assert [op.type for op in found.program.global_block().ops] == ["torch.call"]


def test_no_gradient_flows_through_detached_nodes() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.exp() * x.detach()

    truth = with_torch(function, [X])
    results = with_plan(translated(function, [X]), [X], truth)
    torch.testing.assert_close(results.gradients, truth.gradients)


def test_symbolic_sizes_become_numbers() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        n, m = x.shape
        wide = x.view(m, n)[: n // 2].expand(3, -1, -1)
        return [wide, x.new_zeros(n + m), torch.arange(n * 2), x * n, torch.ops.aten.diff(x)]

    tensors = [torch.rand(4, 6, requires_grad=True)]
    found = translated(function, tensors, "symbolic")
    assert not found.declined
    truth = with_torch(function, tensors)
    results = with_plan(found, tensors, truth)
    torch.testing.assert_close(results.outputs, truth.outputs)
    torch.testing.assert_close(results.gradients, truth.gradients)


def test_views_that_stop_gradients_are_not_skipped() -> None:
    traced = make_fx(lambda x: (x.view(4).view(1, 4).sum(),), pre_dispatch=True)(X.detach())
    first = next(node for node in traced.graph.nodes if node.op == "call_function")
    for node in traced.graph.nodes:
        node.meta["requires_grad"] = node is not first
    block = translate(traced.graph, traced, trainable=[0]).program.global_block()
    (stopped,) = block.ops[0].output("out")
    assert block.var(stopped).stop_gradient
    assert block.ops[1].input("x") == (stopped,)


@pytest.mark.parametrize("is_selected", [False, True])
def test_queries_keys_and_values_are_computed_by_one_split(is_selected: bool) -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        parts = x.reshape(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
        return [parts[0], parts[1], parts[2]] if is_selected else list(parts.unbind(0))

    found = translated(function, [torch.rand(2, 5, 24)])
    block = found.program.global_block()
    written = {name: op for op in block.ops for name in op.output_names()}
    for i, variable in enumerate(found.outputs):
        transpose = written[variable.name]
        reshape = written[transpose.input("x")[0]]
        split = written[reshape.input("x")[0]]
        assert (transpose.type, list(transpose.attrs["axes"])) == ("transpose", [0, 2, 1, 3])
        assert (reshape.type, split.type) == ("reshape", "split")
        assert split.output("out")[i] == reshape.input("x")[0]
    assert [op.type for op in block.ops].count("split") == 1


DTYPES = ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("left", DTYPES)
@pytest.mark.parametrize("shape", [(2,), ()])
def test_promotion_matches_pytorch(left: str, shape: tuple[int, ...]) -> None:
    x = torch.ones(2, dtype=getattr(torch, left))
    others = [torch.ones(shape, dtype=getattr(torch, right)) for right in DTYPES]

    def function(x: torch.Tensor, *others: torch.Tensor) -> list[torch.Tensor]:
        results = [x * other for other in others] + [x == other for other in others]
        return [*results, x * True, x * 2, x * 2.5, x / 2, x == 2.5]

    truth = with_torch(function, [x, *others])
    results = with_plan(translated(function, [x, *others]), [x, *others], truth)
    torch.testing.assert_close(results.outputs, truth.outputs)


def test_randperm_draws_another_permutation_in_each_call() -> None:
    fast = torch.compile(lambda x: x + torch.randperm(64), backend="opwright")
    first, second = fast(torch.zeros(64)), fast(torch.zeros(64))
    assert torch.equal(first.sort()[0], torch.arange(64.0))
    assert torch.equal(second.sort()[0], torch.arange(64.0))
    assert not torch.equal(first, second)
    assert not opwright_torch.report(fast, measure=False).calls
