"""Operators of other packages in PyTorch: namespaces by prefix, autograd and tracing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch

import opwright as ow
from opwright.errors import RegistrationError
from opwright.op import OpMaker, same_shape_as
from opwright.plugin import Package
from opwright_torch import ops

X = torch.linspace(-1, 1, 6)


def make_swish(op_type: str, attr: str) -> Any:
    """Return ``x * sigmoid(beta * x)`` as a composition."""

    def body(b: Any) -> None:
        x = b.input("x")
        scaled = b.emit("scale", {"x": x}, attrs={"scale": b.attr(attr)})
        out = b.emit("multiply", {"x": x, "y": b.emit("sigmoid", {"x": scaled})})
        b.set_output("out", out)

    maker = OpMaker(op_type).add_comment("x * sigmoid(beta * x).")
    maker = maker.add_input("x", "float").add_output("out", "as x").same_dtype_as("x")
    return (
        maker.add_attr(attr, float, "steepness")
        .default(1.0)
        .build(infer_shape=same_shape_as("x"), body=body)
    )


def add(context: Any, op_type: str, attr: str = "beta") -> None:
    plugin = op_type.partition(".")[0]
    package = Package(plugin, f"opwright-{plugin}", "1")
    context.ops.add(op_type, make_swish(op_type, attr), package)


@pytest.fixture
def register() -> Iterator[Callable[..., None]]:
    """Yield a function that adds an operator to a context with all plugins."""
    with ow.context_guard(ow.Context.discover()) as context:
        yield partial(add, context)


def truth(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(2 * x)


def test_a_prefix_is_a_namespace_in_both_libraries(register: Callable[..., None]) -> None:
    register("acme_a.swish")
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    ops.acme_a.swish(x, beta=2.0).sum().backward()
    truth(y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(torch.ops.opwright_acme_a.swish(X, beta=2.0), truth(X))


def test_the_compiler_traces_one_operator(register: Callable[..., None]) -> None:
    register("acme_b.swish")
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    compiled = torch.compile(
        lambda x: ops.acme_b.swish(x, beta=2.0), fullgraph=True, backend=backend
    )
    torch.testing.assert_close(compiled(X), truth(X))
    targets = {str(node.target) for node in graphs[0].graph.nodes}
    assert "opwright_acme_b.swish.default" in targets


def test_a_name_cannot_have_two_operators_in_a_process(register: Callable[..., None]) -> None:
    register("acme_c.swish")
    ops.acme_c.swish(X)
    with ow.context_guard(ow.Context.discover()) as context:
        add(context, "acme_c.swish", "alpha")
        with pytest.raises(RegistrationError, match=r"acme_c.swish: .* only once per process"):
            ops.acme_c.swish(X)
