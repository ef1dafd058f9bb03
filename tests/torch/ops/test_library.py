"""``torch.ops.opwright.NAME`` passes opcheck, and can be compiled, exported and transformed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from case import Case
from one_operator import graded_slots
from samples import Sample, callable_cases, make_sample, over_operators

import opwright as ow
import opwright_torch
from opwright_torch import ops
from opwright_torch.ops.library import find_overloads, torch_name

pytestmark = pytest.mark.grid(6)


@pytest.fixture(autouse=True)
def _forgets_graphs() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def bind(sample: Sample) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a case for the dispatcher, with gradients for floats.

    NaN is replaced by 0, since opcheck treats NaN as different from itself.
    """
    definition = ow.current_context().ops.get(sample.case.op)
    slots = definition.proto.inputs
    graded = graded_slots(sample.case, sample.case.make_inputs(sample.case.dtypes[-1]))

    def prepare(value: Any, slot: str) -> Any:
        if isinstance(value, list):
            return [prepare(item, slot) for item in value]
        if value is None or not value.is_floating_point():
            return value
        value = torch.where(value.isnan(), 0, value)
        return value.requires_grad_() if slot in graded else value

    inputs = [prepare(sample.inputs.get(slot.name), slot.name) for slot in slots]
    attrs = {name: listed(value) for name, value in sample.case.attrs.items()}
    return inputs, attrs


def listed(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, np.ndarray)) else value


@over_operators(callable_cases())
def test_every_operator_passes_opcheck(case: Case) -> None:
    sample = make_sample(case, case.dtypes[-1])
    inputs, attrs = bind(sample)
    overload = find_overloads(ow.current_context().ops.get(case.op)).main
    torch.library.opcheck(overload, tuple(inputs), attrs)


X = torch.linspace(-1.2, 1.1, 24, dtype=torch.float64).reshape(4, 6)
W = torch.linspace(0.1, 0.9, 30, dtype=torch.float64).reshape(6, 5)

PAIRS: dict[str, tuple[Any, Any]] = {
    "add": (lambda x: ops.add(x, 2.5), lambda x: x + 2.5),
    "softmax": (lambda x: ops.softmax(x, axis=-1), lambda x: x.softmax(-1)),
    "tanh": (ops.tanh, torch.tanh),
    "matmul": (lambda x: ops.matmul(x, W), lambda x: x @ W),
    "reshape": (
        lambda x: ops.reshape(x, shape=[x.shape[0] * 2, -1]),
        lambda x: x.reshape(len(x) * 2, -1),
    ),
    "concat": (lambda x: ops.concat([x, x], axis=0), lambda x: torch.cat([x, x])),
    "split": (lambda x: ops.split(x, num=2, axis=1)[1], lambda x: x.chunk(2, 1)[1]),
    "top_k": (lambda x: ops.top_k(x, k=2)[0], lambda x: x.topk(2).values),
    "sum": (lambda x: ops.sum(x, axis=[0]), lambda x: x.sum(0)),
    "gather": (lambda x: ops.gather(x, torch.tensor([0, 1, 0])), lambda x: x[[0, 1, 0]]),
    "layer_norm": (ops.layer_norm, lambda x: torch.layer_norm(x, x.shape[1:])),
    "where": (lambda x: ops.where(x > 0, x, 0.0), torch.relu),
    "logsumexp": (lambda x: ops.logsumexp(x, axis=[1]), lambda x: x.logsumexp(1)),
}
"""Equal opwright and PyTorch functions, for matrices with any number of rows."""

over_pairs = pytest.mark.parametrize("name", PAIRS)


def with_gradient(function: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """Return a result, and the gradient of its weighted sum."""
    given = x.clone().requires_grad_()
    result = function(given)
    weights = torch.linspace(0.5, 1.5, result.numel(), dtype=result.dtype).reshape(result.shape)
    return [result.detach(), *torch.autograd.grad((result * weights).sum(), given)]


@over_pairs
def test_one_graph_supports_every_number_of_rows(name: str) -> None:
    ours, theirs = PAIRS[name]
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    compiled = torch.compile(ours, fullgraph=True, dynamic=True, backend=backend)
    for x in (X, torch.cat([X, X + 0.1])[:7]):
        torch.testing.assert_close(with_gradient(compiled, x), with_gradient(theirs, x))
    assert len(graphs) == 1
    targets = {str(node.target) for node in graphs[0].graph.nodes}
    assert f"opwright.{name}.default" in targets


@over_pairs
def test_an_exported_program_contains_the_operator(name: str) -> None:
    ours, theirs = PAIRS[name]

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return ours(x)

    shapes = {"x": {0: torch.export.Dim("rows", min=3)}}
    program = torch.export.export(Model(), (X,), dynamic_shapes=shapes)
    assert f"opwright.{name}.default" in {str(node.target) for node in program.graph.nodes}
    rows = torch.cat([X, X])
    torch.testing.assert_close(program.module()(rows), theirs(rows))


@over_pairs
def test_transforms_match_the_pytorch_functions(name: str) -> None:
    ours, theirs = PAIRS[name]
    func = torch.func
    batch = torch.stack([X, X.flip(0) * 0.5])
    for transform in (
        lambda f: func.grad(lambda x: (f(x) ** 2).sum())(X),
        lambda f: func.jacrev(f)(X[:2, :4] if name != "matmul" else X[:2]),
        lambda f: func.jacfwd(f)(X[:2, :4] if name != "matmul" else X[:2]),
        lambda f: func.vmap(f)(batch),
        lambda f: func.vmap(func.grad(lambda x: (f(x) ** 2).sum()))(batch),
        lambda f: func.jvp(f, (X,), (X.flip(1),))[1],
        lambda f: func.hessian(lambda x: (f(x) ** 2).sum())(X[:2]),
    ):
        torch.testing.assert_close(transform(ours), transform(theirs))


def test_transforms_are_compiled():
    gradient = torch.func.grad(lambda x: ops.sum(ops.square(x)))
    compiled = torch.compile(gradient, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(X), 2 * X)


@over_operators(callable_cases())
def test_vmap_of_a_batch_matches_calls_on_its_examples(case: Case) -> None:
    sample = make_sample(case, case.dtypes[-1])
    tensors = [t for t in sample.tensors() if t.ndim]
    if not tensors:
        pytest.skip("no input has an axis for the batch")
    places = [i for i, t in enumerate(sample.tensors()) if t.ndim]

    def call(*values: torch.Tensor) -> Any:
        given = sample.tensors()
        for place, value in zip(places, values, strict=True):
            given[place] = value
        return sample.function(**sample.with_tensors(given), **case.attrs)

    expected = call(*tensors)
    found = torch.func.vmap(call)(*[torch.stack([t, t]) for t in tensors])
    for one, both in zip(as_list(expected), as_list(found), strict=True):
        torch.testing.assert_close(both, torch.stack([one, one]), equal_nan=True)


def as_list(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def test_outputs_with_unknown_sizes_are_traced():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(lambda x: ops.nonzero(x) + 0, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(X), ops.nonzero(X))


def test_outputs_chosen_by_name_are_traced():
    def call(x: torch.Tensor) -> Any:
        return ops.dropout(x, torch.tensor([1]), training=True, returns=["out", "mask"])

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert all(map(torch.equal, compiled(X), call(X)))


def test_random_operators_draw_new_numbers_in_a_compiled_function():
    compiled = torch.compile(
        lambda x: ops.dropout(x, training=True), fullgraph=True, backend="aot_eager"
    )
    torch.manual_seed(3)
    first, second = compiled(X), compiled(X)
    torch.manual_seed(3)
    assert torch.equal(compiled(X), first)
    assert not torch.equal(first, second)


def test_a_prefix_is_a_pytorch_namespace():
    assert torch_name("relu") == "opwright::relu"
    assert torch_name("acme.swish") == "opwright_acme::swish"
    ops.dist.all_reduce  # noqa: B018 - it defines it
    assert torch.ops.opwright_dist.all_reduce.default.name() == "opwright_dist::all_reduce"


@pytest.mark.parametrize("is_compiled", [False, True])
def test_autocast_casts_according_to_the_kind_of_operator(is_compiled: bool):
    x, w = X.float(), W.float()

    def call() -> list[torch.dtype]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            product = ops.matmul(x, w)
            return [
                product.dtype,
                ops.softmax(product).dtype,
                ops.add(product, product + 0.0).dtype,
                ops.add(product, ops.softmax(product)).dtype,
                ops.matmul(X, W).dtype,
            ]

    function = torch.compile(call, fullgraph=True, backend="eager") if is_compiled else call
    half, single = torch.bfloat16, torch.float32
    assert function() == [half, single, half, single, torch.float64]


def test_gradients_under_autocast_have_the_dtypes_of_inputs():
    x, w = X.float().requires_grad_(), W.float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = ops.mse(ops.matmul(x, w), torch.zeros(4, 5))
    ops.mean(loss).backward()
    assert x.grad.dtype == w.grad.dtype == torch.float32


def test_every_operator_is_defined_on_request() -> None:
    opwright_torch.define_operators()
    known = ow.current_context().ops
    types = [t for t in known.types() if not known.get(t).proto.has_blocks]
    assert all(torch._C._jit_get_schemas_for_operator(torch_name(t)) for t in types)


def test_several_threads_can_use_an_operator_for_the_first_time_simultaneously() -> None:
    program = """
import threading, torch
from opwright_torch import ops
failures = []
started = threading.Barrier(4)
def work():
    x = torch.ones(2, requires_grad=True)
    started.wait()
    try:
        for name in ("tanh", "exp", "relu", "sin", "cos", "square"):
            getattr(ops, name)(x).sum().backward()
    except Exception as error:
        failures.append(error)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failures, failures
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_exported_program_is_saved_and_loaded(tmp_path: Any) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return ops.softmax(ops.matmul(x, x, transpose_y=True), axis=0)

    program = torch.export.export(Model(), (X,))
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2")
    torch.testing.assert_close(loaded.module()(X), Model()(X))


def test_modules_of_the_package_are_not_operators() -> None:
    assert not hasattr(ops, "library")


@pytest.mark.parametrize("returns", [["out"], ["mean", "inv_std"], ["out", "inv_std"]])
def test_outputs_chosen_by_name_pass_opcheck(returns: list[str]) -> None:
    overload = find_overloads(ow.current_context().ops.get("layer_norm")).returns
    inputs = [X.clone().requires_grad_() if "out" in returns else X, None, None]
    torch.library.opcheck(overload, tuple(inputs), {"returns": returns})
