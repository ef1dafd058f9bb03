"""A compiled model matches the original: values, views, state, containers, sizes."""

from __future__ import annotations

import copy
import gc
import logging
import weakref
from collections import namedtuple
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import opwright_torch
from opwright_torch import openmp
from opwright_torch.finding import NotCompiledError, find_graphs


def compiled(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend="opwright", **options)


def assert_same(found: Any, expected: Any) -> None:
    """Compare values, dtypes, strides and `requires_grad` of results in any container."""
    if isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype
        assert found.stride() == expected.stride()
        assert found.requires_grad == expected.requires_grad
        torch.testing.assert_close(found, expected)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for name in expected:
            assert_same(found[name], expected[name])
    elif isinstance(expected, (tuple, list)):
        assert type(found) is type(expected)
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b)
    else:
        assert found == expected


class Tower(nn.Module):
    """Convolution, batch norm, dropout and a product."""

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(p)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x)).relu()
        return self.head(self.drop(y.mean((2, 3))))


def images(n: int = 2) -> torch.Tensor:
    return torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(n))


def test_modes_can_be_switched_and_statistics_are_updated() -> None:
    model = Tower()
    twin = copy.deepcopy(model)
    fast = compiled(model)
    for train in (True, False, True, False):
        fast.train(train)
        twin.train(train)
        assert_same(fast(images()), twin(images()))
        assert_same(dict(model.named_buffers()), dict(twin.named_buffers()))


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_calls_without_gradients_match_pytorch(guard: Any) -> None:
    model = Tower().eval()
    fast = compiled(model)
    with guard():
        assert_same(fast(images()), model(images()))
    assert fast(images()).requires_grad


def test_a_model_created_in_inference_mode_runs() -> None:
    with torch.inference_mode():
        model = Tower().eval()
        assert_same(compiled(model)(images()), model(images()))


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_many_batch_sizes_share_one_graph(training: bool) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    fast = compiled(model, dynamic=True, fullgraph=True)
    with torch.set_grad_enabled(training):
        for n in (5, 3, 9, 2, 5):
            x = torch.randn(n, 6)
            assert_same(fast(x), model(x))
    (region,) = find_graphs(fast)
    assert len(region.plans) == 4


def test_different_batch_sizes_use_at_most_two_graphs() -> None:
    model = Tower()
    fast = compiled(model)
    for n in (4, 4, 3, 4, 2):
        fast(images(n)).sum().backward()
    assert len(find_graphs(fast)) <= 2


def test_the_memory_of_plans_for_many_sizes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opwright_torch.plans.region.MAX_BYTES", 100_000)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    fast = compiled(model, dynamic=True)
    with torch.no_grad():
        for n in range(100, 120):
            x = torch.randn(n, 64)
            assert_same(fast(x), model(x))
    (region,) = find_graphs(fast)
    assert 1 <= len(region.plans) < 10


def test_constants_are_recomputed_for_each_size() -> None:
    def window(x: torch.Tensor) -> torch.Tensor:
        return x * torch.hann_window(x.shape[0]) + torch.nn.functional.one_hot(
            torch.arange(x.shape[0]) % 3, 3
        ).sum(1)

    fast = compiled(window, dynamic=True)
    for n in (5, 7, 5, 9, 7):
        x = torch.randn(n)
        assert_same(fast(x), window(x))


class Views(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        z = x + y
        return {
            "input": x,
            "view of an input": x[:, 1:],
            "computed": z,
            "view of a computed": z.t(),
            "flat": z.view(-1),
            "strided": (x * 2).t(),
            "number": x.shape[0],
            "none": None,
        }


def test_views_and_aliases_match_pytorch() -> None:
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    found, expected = compiled(Views())(x, y), Views()(x, y)
    assert_same(found, expected)
    assert found["input"] is x
    assert found["view of an input"].data_ptr() == x[:, 1:].data_ptr()
    assert found["flat"].data_ptr() == found["computed"].data_ptr()
    found["computed"].zero_()
    assert not found["view of a computed"].any()


def test_gradients_flow_through_views_of_outputs() -> None:
    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    for name in ("view of an input", "view of a computed", "flat", "strided"):
        weights = torch.randn(Views()(x, y)[name].shape)
        grads = []
        for model in (compiled(Views()), Views()):
            (grad,) = torch.autograd.grad((model(x, y)[name] * weights).sum(), x)
            grads.append(grad)
        torch.testing.assert_close(*grads)


def test_inputs_are_changed_as_in_pytorch() -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        y[:, 0] = x[:, 1] * 2
        return x + y

    pairs = [[torch.randn(3, 4, generator=torch.Generator().manual_seed(i)) for i in (1, 2)]]
    pairs.append([tensor.clone() for tensor in pairs[0]])
    versions = [tensor._version for tensor in pairs[0]]
    assert_same(compiled(step)(*pairs[0]), step(*pairs[1]))
    assert_same(pairs[0], pairs[1])
    assert all(t._version > old for t, old in zip(pairs[0], versions, strict=True))


Pair = namedtuple("Pair", "left right")


def test_containers_are_accepted_and_returned() -> None:
    def mix(data: dict[str, Any]) -> dict[str, Any]:
        left, right = data["pair"]
        return {"pair": Pair(left + right, [left * 2, (right, None)]), "n": 3}

    data = {"pair": Pair(torch.randn(3), torch.randn(3))}
    assert_same(compiled(mix)(data), mix(data))


def test_changed_parameters_are_detected() -> None:
    model = Tower().eval()
    fast = compiled(model)
    x = images()
    with torch.no_grad():
        assert_same(fast(x), model(x))
        model.head.weight.mul_(2)
        model.norm.running_mean.add_(0.5)
        assert_same(fast(x), model(x))
        model.load_state_dict({k: v * 0.5 for k, v in model.state_dict().items()})
        assert_same(fast(x), model(x))


def test_refresh_reads_changes_that_do_not_increment_a_version() -> None:
    model = Tower().eval()
    fast = compiled(model)
    with torch.no_grad():
        fast(images())
        model.conv.weight.data.mul_(3)
        opwright_torch.refresh(model)
        assert_same(fast(images()), model(images()))
        model.conv.weight.data = torch.ones(8, 3, 3, 3)
        opwright_torch.refresh(model)
        assert_same(fast(images()), model(images()))


def test_a_report_before_the_backward_pass_covers_the_forward_pass() -> None:
    fast = compiled(nn.Linear(3, 2))
    fast(torch.ones(1, 3))
    (row,) = opwright_torch.report(fast, measure=False).packages
    assert row.n == 1


def test_models_of_one_class_do_not_share_parameters() -> None:
    models = [Tower().eval() for _ in range(3)]
    for i, model in enumerate(models):
        nn.init.constant_(model.head.bias, float(i))
    fasts = [compiled(model) for model in models]
    with torch.no_grad():
        for _ in range(2):
            for fast, model in zip(fasts, models, strict=True):
                assert_same(fast(images()), model(images()))


def test_layers_that_are_compiled_one_by_one_share_a_graph() -> None:
    layers = [nn.Linear(6, 6) for _ in range(4)]
    for layer in layers:
        layer.compile(backend="opwright")
    x = torch.randn(2, 6)
    found, expected = x, x
    for layer in layers:
        found, expected = layer(found), functional.linear(expected, layer.weight, layer.bias)
    assert_same(found, expected)


def test_a_deleted_model_leaves_no_tensors_or_plans() -> None:
    model = nn.Linear(50, 50)
    fast = compiled(model)
    with torch.no_grad():
        fast(torch.randn(2, 50))
    (region,) = find_graphs(fast)
    weight = weakref.ref(model.weight)
    del model, fast
    gc.collect()
    assert weight() is None
    assert not region.plans


def test_channels_last_models_run() -> None:
    model = Tower().eval().to(memory_format=torch.channels_last)
    x = images().to(memory_format=torch.channels_last)
    fast = compiled(model)
    with torch.no_grad():
        assert_same(fast(x), model(x))
        model.conv.weight.mul_(2)
        assert_same(fast(x), model(x))


def test_dropout_is_reproducible_with_a_seed_and_differs_otherwise() -> None:
    model = Tower(p=0.5)
    fast = compiled(model)
    fast(images())
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append((fast(images()), fast(images())))
    assert_same(results[0], results[1])
    assert not torch.equal(results[0][0], results[0][1])
    assert not torch.equal(results[0][0], results[2][0])


def test_dropout_masks_of_forward_and_backward_are_the_same() -> None:
    x = torch.ones(1000, requires_grad=True)
    out = compiled(lambda x: functional.dropout(x, 0.5) * 1)(x)
    out.backward(torch.ones_like(out))
    assert torch.equal(out != 0, x.grad != 0)


def test_autocast_is_respected() -> None:
    model = Tower().eval()
    fast = compiled(model)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found, expected = fast(images()), model(images())
    assert found.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.02)


def test_gradient_checkpointing_computes_the_same_gradients() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.body, x, use_reentrant=False)

    model = Checkpointed()
    twin = copy.deepcopy(model)
    x = torch.randn(3, 6)
    compiled(model)(x).square().sum().backward()
    twin(x).square().sum().backward()
    assert_same([p.grad for p in model.parameters()], [p.grad for p in twin.parameters()])


def spectrum(x: torch.Tensor) -> torch.Tensor:
    return torch.special.i0e(x * 2) + 1


def test_operators_computed_by_pytorch_are_in_the_plan_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fast = compiled(spectrum, fullgraph=True)
    x = torch.randn(4, requires_grad=True)
    with caplog.at_level(logging.WARNING, "opwright_torch"):
        found = fast(x)
        fast(x)
    assert_same(found, spectrum(x))
    (line,) = [r.getMessage() for r in caplog.records if r.name == "opwright_torch"]
    assert "PyTorch computes 1 operators" in line
    report = opwright_torch.report(fast)
    (call,) = report.calls
    assert call.operator == "aten.special_i0e.default"
    assert call.n == 1
    assert call.share is not None
    assert 0 < call.share <= 1
    assert "special.i0e" in call.line
    assert "opwright-cpu" in str(report)


def test_the_report_of_a_model_that_has_not_been_called_states_this() -> None:
    fast = compiled(Tower())
    assert str(opwright_torch.report(fast)) == (
        "no graph has run yet; call the compiled model first"
    )
    before = [buffer.clone() for buffer in fast._orig_mod.buffers()]
    fast(images()).sum().backward()
    moved = [buffer.clone() for buffer in fast._orig_mod.buffers()]
    report = opwright_torch.report(fast)
    assert report.plans == ("two plans",)
    assert not report.calls
    assert "PyTorch computes none of them" in str(report)
    assert_same(list(fast._orig_mod.buffers()), moved)
    assert not torch.equal(before[0], moved[0])


def test_a_report_of_an_uncompiled_model_raises() -> None:
    message = r"report: compiled must be a result of torch\.compile"
    with pytest.raises(NotCompiledError, match=message):
        opwright_torch.report(Tower())


def test_find_graphs_returns_all_graphs_of_a_model_with_a_graph_break() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    fast = compiled(broken)
    assert_same(fast(torch.ones(3)), torch.full((3,), 3.0))
    assert len(find_graphs(fast)) == 2


def test_a_model_without_parameters_does_not_report_graphs_of_other_models() -> None:
    other = compiled(nn.Sequential(nn.Linear(6, 6)))
    fast = compiled(nn.Sequential(nn.ReLU()))
    x = torch.randn(2, 6)
    other(x)
    fast(x)
    assert len(find_graphs(fast)) == 1
    assert len(find_graphs(other)) == 1


def test_options_reach_the_plans() -> None:
    model = Tower().eval()
    fast = compiled(model, options={"passes": [], "deterministic": True})
    with torch.no_grad():
        assert_same(fast(images()), model(images()))


def test_plans_run_on_the_pytorch_threads() -> None:
    assert openmp.share_threads()
