"""`to_program` accepts common forms of models and inputs; others raise errors with a remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import opwright_torch
from opwright.errors import SettingError


class Pair(nn.Module):
    """Reads two inputs that affect the result differently."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x - 2 * y


class Rest(nn.Module):
    """Reads positional inputs without separate names."""

    def forward(self, x: Tensor, *rest: Tensor, scale: float = 1.0) -> Tensor:
        return (x + rest[0] * rest[1]) * scale


class Nested(nn.Module):
    """Reads inputs from a list and a dict."""

    def forward(self, parts: list[Tensor], named: dict[str, Tensor]) -> Tensor:
        return parts[0] + parts[1] * named["k"]


def test_a_tensor_that_is_passed_twice_gives_two_feeds() -> None:
    x = torch.ones(2, 4)
    program = opwright_torch.to_program(Pair(), (x, x), {"x": {0: "n"}, "y": {0: "n"}})
    assert [feed.name for feed in program.feeds] == ["x", "y"]
    ones = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(program(ones, 3 * ones)[0], -5 * ones)


@pytest.mark.parametrize("dynamic", [None, True, {"rest": ({0: "n"}, {0: "n"}), "x": {0: "n"}}])
def test_inputs_of_a_variadic_argument_are_named_by_their_index(dynamic: Any) -> None:
    given = tuple(torch.randn(2, 4) for _ in range(3))
    program = opwright_torch.to_program(Rest(), given, dynamic)
    assert [feed.name for feed in program.feeds] == ["x", "rest.0", "rest.1"]
    np.testing.assert_allclose(program(*given)[0], Rest()(*given), rtol=1e-6)


@pytest.mark.parametrize(
    "wrap",
    [
        torch.compile,
        nn.DataParallel,
        lambda m: torch.compile(nn.DataParallel(m), backend="opwright"),
    ],
    ids=["compiled", "parallel", "both"],
)
def test_wrapped_models_are_unwrapped(wrap: Any) -> None:
    model = wrap(nn.Bilinear(4, 4, 3))
    x = torch.zeros(2, 4)
    program = opwright_torch.to_program(model, (x, x), {"input1": {0: "n"}, "input2": {0: "n"}})
    assert [feed.name for feed in program.feeds] == ["input1", "input2"]
    assert sorted(program.parameters()) == ["bias", "weight"]


@pytest.mark.parametrize(
    "dynamic",
    [{"x": {-2: "n"}, "y": {0: "n", 1: None}}, {"x": ["n", None], "y": ("n", None)}],
    ids=["negative", "lists"],
)
def test_dynamic_axes_can_be_negative_or_in_lists(dynamic: Any) -> None:
    program = opwright_torch.to_program(Pair(), (torch.zeros(2, 4), torch.zeros(2, 4)), dynamic)
    assert [feed.shape for feed in program.feeds] == [(None, 4), (None, 4)]


@pytest.mark.parametrize(
    ("dynamic", "text"),
    [
        ({"x": "n"}, r"must be a dict by axis, or a list of all 2 axes, got 'n' for x; write"),
        ({"x": {"n"}}, r"must be a dict by axis.*got \{'n'\} for x"),
        ({"x": ["n"]}, r"must be a dict by axis.*got \['n'\] for x"),
        ({"x": {"0": "n"}}, r"must name axes in \[-2, 2\) of x, got '0'"),
        ({"x": {-3: "n"}}, r"must name axes in \[-2, 2\) of x, got -3"),
        ({"x": {0: 2.5}}, r"must be names or torch.export.Dim, got 2.5 for axis 0 of x"),
        ([{0: "n"}, {0: "n"}, {0: "n"}], "must have at most one entry per input, got 3 for x, y"),
    ],
)
def test_the_error_shows_a_wrong_dynamic_dimension(dynamic: Any, text: str) -> None:
    with pytest.raises(SettingError, match=text):
        opwright_torch.to_program(Pair(), (torch.zeros(2, 4), torch.ones(2, 4)), dynamic)


@pytest.mark.parametrize(
    ("dynamic", "text"),
    [
        (
            {"parts": {0: "n"}},
            r"the structure of the inputs, got \{0: 'n'\} for parts, a list of 2",
        ),
        ({"parts": [{0: "n"}]}, r"the structure of the inputs.* for parts, a list of 2"),
        ({"named": {"j": {0: "n"}}}, "must name keys of named, got 'j'; there are k"),
    ],
)
def test_the_error_shows_a_wrong_structure_of_dynamic_dimensions(dynamic: Any, text: str) -> None:
    x = torch.zeros(2, 4)
    with pytest.raises(SettingError, match=text):
        opwright_torch.to_program(Nested(), ([x, x], {"k": x}), dynamic)


def test_nested_inputs_can_have_dynamic_dimensions() -> None:
    x, batch = torch.zeros(2, 4), Dim("batch", max=9)
    dynamic = {"parts": [{0: batch}, {0: batch}], "named": {"k": {0: batch}}}
    program = opwright_torch.to_program(Nested(), ([x, x], {"k": x}), dynamic)
    assert {feed.name: feed.shape for feed in program.feeds} == dict.fromkeys(
        ("parts.0", "parts.1", "named.k"), (None, 4)
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            (torch.zeros(2),),
            r"must be the arguments of forward\(x: .*got 1 by position: missing.*'y'",
        ),
        ((torch.zeros(2),) * 3, "got 3 by position: too many positional arguments"),
        ({"x": torch.zeros(2), "z": torch.zeros(2)}, "got x, z: missing a required argument: 'y'"),
        ((np.zeros(2), np.zeros(2)), r"must be tensors, got a NumPy array; write torch.from_numpy"),
        (
            (torch.zeros(2).to_sparse(),) * 2,
            r"must be dense, got torch.sparse_coo; write x.to_dense",
        ),
    ],
)
def test_the_error_shows_wrong_example_inputs(given: Any, text: str) -> None:
    with pytest.raises(SettingError, match=f"to_program: example_inputs.*{text}"):
        opwright_torch.to_program(Pair(), given)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (torch.jit.script, "RecursiveScriptModule; pass the module that was scripted or traced"),
        (lambda m: torch.jit.trace(m, torch.zeros(2, 4)), "TopLevelTracedModule; pass the module"),
        (
            lambda m: torch.export.export(m, (torch.zeros(2, 4),)),
            r"ExportedProgram; pass exported.module\(\)",
        ),
        (type, r"got type; pass an instance, such as Linear\(...\)"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_error_for_a_model_in_another_form_tells_what_to_pass(make: Any, text: str) -> None:
    with pytest.raises(SettingError, match=text):
        opwright_torch.to_program(make(nn.Linear(4, 3)), (torch.zeros(2, 4),))


class Recurrent(nn.Module):
    """Returns all results of a recurrent layer."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__()
        self.layer = getattr(nn, name)(4, 3, **options)

    def forward(self, x: Tensor) -> list[Tensor]:
        out, states = self.layer(x)
        return [out, *(states if isinstance(states, tuple) else [states])]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("LSTM", {"batch_first": True}),
        ("LSTM", {"num_layers": 2, "bidirectional": True, "bias": False}),
        ("LSTM", {"proj_size": 2}),
        ("GRU", {"bidirectional": True}),
        ("RNN", {"nonlinearity": "relu"}),
    ],
)
@pytest.mark.filterwarnings("ignore:The tensor attributes .* were assigned during export")
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_sequences_of_recurrent_layers_can_have_any_length(
    name: str, options: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    model = Recurrent(name, **options).eval()
    dynamic = {"x": {0: "first", 1: "second"}}
    program = opwright_torch.to_program(model, (torch.zeros(2, 5, 4),), dynamic)
    for shape in ((2, 5, 4), (1, 7, 4), (3, 1, 4)):
        x = torch.randn(shape)
        for found, expected in zip(program(x), model(x), strict=True):
            np.testing.assert_allclose(found, expected.detach(), atol=1e-6)


@pytest.mark.parametrize("result", [None, (), [None]])
def test_a_model_without_results_is_refused(result: Any) -> None:
    class Silent(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return result

    with pytest.raises(SettingError, match="to_program: the model must return tensors, got none"):
        opwright_torch.to_program(Silent(), (torch.zeros(2),))
