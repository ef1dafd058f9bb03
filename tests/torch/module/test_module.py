"""A Program as a PyTorch module: values, gradients, shared memory, state, modes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from programs import Twin, classifier, images, labels
from torch import nn

import opwright as ow
import opwright_nn
import opwright_torch
from opwright.errors import FeedError, ProgramError, VariableNotFoundError
from opwright_torch.finding import find_graphs


def scores_module() -> opwright_torch.Module:
    model, scores, _ = classifier()
    return opwright_torch.Module(model.program, model.scope, scores)


def loss_module() -> opwright_torch.Module:
    model, _, loss = classifier()
    return opwright_torch.Module(model.program, model.scope, loss)


def assert_same_gradients(module: Any, twin: Twin) -> None:
    for found, expected in (
        (module.conv2d_0_w_param.grad, twin.conv.weight.grad),
        (module.batch_norm_0_w_param.grad, twin.norm.weight.grad),
        (module.fc_0_w_param.grad.T, twin.head.weight.grad),
        (module.fc_0_b_param.grad, twin.head.bias.grad),
    ):
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


def kinds(module: opwright_torch.Module) -> list[str]:
    return list(opwright_torch.report(module).plans)


def test_training_with_a_loss_computed_by_pytorch_uses_two_plans() -> None:
    module = scores_module()
    twin = Twin(module)
    x, y = images().requires_grad_(), images().requires_grad_()
    found, expected = module(x), twin(y)
    torch.testing.assert_close(found, expected)
    found.square().sum().backward()
    expected.square().sum().backward()
    assert_same_gradients(module, twin)
    torch.testing.assert_close(x.grad, y.grad, atol=2e-5, rtol=1e-4)
    assert kinds(module) == ["two plans"]


def test_a_scalar_loss_is_trained_in_one_plan() -> None:
    module = loss_module()
    twin = Twin(module)
    found, expected = module(images(), labels()), twin.loss(images(), labels())
    torch.testing.assert_close(found, expected)
    (3 * found).backward()
    (3 * expected).backward()
    assert_same_gradients(module, twin)
    assert kinds(module) == ["one plan"]


def test_batch_sizes_share_the_plans_of_one_program() -> None:
    module = scores_module()
    for n in (5, 2, 5):
        twin = Twin(module)
        module.zero_grad()
        module(images(n)).square().sum().backward()
        twin(images(n)).square().sum().backward()
        assert_same_gradients(module, twin)
    assert kinds(module) == ["two plans"]


def test_several_results_are_differentiated_together() -> None:
    model, scores, loss = classifier()
    module = opwright_torch.Module(model.program, model.scope, [loss, scores, "pixels", loss])
    twin = Twin(module)
    x = images().requires_grad_()
    found, seen, same, again = module(x, labels())
    (found + 2 * again + seen.sum() + same.sum()).backward()
    expected = twin(images())
    loss_of = nn.functional.cross_entropy(expected, labels().flatten())
    (3 * loss_of + expected.sum()).backward()
    assert_same_gradients(module, twin)


def test_a_metric_returned_with_the_scores_has_no_gradient() -> None:
    model, scores, _ = classifier()
    accuracy = model.accuracy(scores, "label")
    module = opwright_torch.Module(model.program, model.scope, [scores, accuracy])
    found, right = module(images(), labels())
    assert (found.requires_grad, right.requires_grad) == (True, False)


@pytest.mark.parametrize("fused", [False, True])
def test_the_program_reads_parameters_updated_by_an_optimizer(fused: bool) -> None:
    model, scores, _ = classifier()
    loaded = ow.LoadedProgram(model.program, model.scope, [scores.name])
    module = opwright_torch.Module(loaded).eval()
    (before,) = loaded(images().numpy())
    optimizer = torch.optim.SGD(module.parameters(), 0.5, fused=fused)
    module(images()).square().sum().backward()
    optimizer.step()
    (after,) = loaded(images().numpy())
    assert not np.allclose(before, after)
    np.testing.assert_allclose(after, module(images()).detach(), rtol=1e-5, atol=1e-5)


def test_pytorch_reads_parameters_updated_by_the_program() -> None:
    model, scores, loss = classifier()
    module = opwright_torch.Module(model.program, model.scope, scores).eval()
    with torch.no_grad():
        module(images())
    model.minimize(loss, opwright_nn.optimizer.SGD(0.5))
    before = module.fc_0_b_param.clone()
    model.initialize_parameters()
    step = ow.Network(model.program.global_block()).compile(
        ["pixels", "label"], [loss], scope=model.scope
    )
    step(images().numpy(), labels().numpy())
    assert not torch.equal(module.fc_0_b_param, before)
    with torch.no_grad():
        torch.testing.assert_close(module(images()), Twin(module).eval()(images()))


def test_updates_of_the_program_are_omitted() -> None:
    model, _, loss = classifier()
    model.minimize(loss, opwright_nn.optimizer.SGD(0.5))
    module = opwright_torch.Module(model.program, model.scope, loss)
    before = copy.deepcopy(module.state_dict())
    module(images(), labels()).backward()
    torch.testing.assert_close(module.fc_0_w_param.detach(), before["fc_0_w_param"])
    assert module.fc_0_w_param.grad is not None


def test_a_loaded_state_dict_updates_the_program() -> None:
    model, scores, _ = classifier()
    loaded = ow.LoadedProgram(model.program, model.scope, [scores.name])
    module, other = opwright_torch.Module(loaded), scores_module()
    assert list(module.state_dict()) == [
        *("conv2d_0_w_param", "conv2d_0_b_param", "batch_norm_0_w_param", "batch_norm_0_b_param"),
        *("fc_0_w_param", "fc_0_b_param", "batch_norm_0_mean", "batch_norm_0_variance"),
    ]
    loaded(images().numpy())
    module.load_state_dict(other.state_dict())
    opwright_torch.refresh(module)
    expected = other.eval()(images()).detach()
    np.testing.assert_allclose(loaded(images().numpy())[0], expected, rtol=1e-5, atol=1e-5)


def test_train_and_eval_select_the_mode_of_the_program() -> None:
    model, scores, _ = classifier()
    loaded = ow.LoadedProgram(model.program, model.scope, [scores.name])
    module = opwright_torch.Module(loaded)
    with torch.no_grad():
        for _ in range(2):
            before = module.batch_norm_0_mean.clone()
            module.train()(images())
            moved = module.batch_norm_0_mean.clone()
            assert not torch.equal(moved, before)
            found = module.eval()(images())
            assert torch.equal(module.batch_norm_0_mean, moved)
            np.testing.assert_allclose(loaded(images().numpy())[0], found, rtol=1e-5, atol=1e-5)


def test_equal_seeds_give_equal_dropout() -> None:
    model, scores, _ = classifier(p=0.5)
    module = opwright_torch.Module(model.program, model.scope, scores)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(module(images()).detach())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    state = torch.get_rng_state()
    module.eval()(images())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_calls_without_gradients_match_pytorch(guard: Callable[[], Any]) -> None:
    module = scores_module().eval()
    with guard():
        found = module(images())
    assert not found.requires_grad
    torch.testing.assert_close(found, Twin(module).eval()(images()).detach())
    assert kinds(module) == ["inference"]


def test_a_report_lists_operators_computed_by_pytorch() -> None:
    compiled = torch.compile(lambda x: torch.fft.rfft(x).abs(), backend="opwright")
    compiled(torch.ones(4))
    (region,) = find_graphs(compiled)
    draft = region.plans[0].draft
    module = opwright_torch.Module(draft.program, ow.Scope(), draft.results)
    torch.testing.assert_close(module(torch.ones(4)), torch.tensor([4.0, 0.0, 0.0]))
    (call,) = opwright_torch.report(module).calls
    assert "fft_rfft" in call.operator


def test_a_module_uses_the_options_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    model, scores, _ = classifier()
    options = {"cpu.recompute": 0.5}
    loaded = ow.LoadedProgram(model.program, model.scope, [scores.name], options=options)
    module, seen = opwright_torch.Module(loaded).eval(), []
    compile = ow.Network.compile

    def watched(*args: Any, **named: Any) -> Any:
        seen.append(named["options"])
        return compile(*args, **named)

    monkeypatch.setattr(ow.Network, "compile", watched)
    with torch.no_grad():
        module(images())
    assert seen == [options]


def test_frozen_parameters_have_no_gradient() -> None:
    module = scores_module()
    module.requires_grad_(False)
    module.fc_0_b_param.requires_grad_()
    module(images()).sum().backward()
    assert [name for name, p in module.named_parameters() if p.grad is not None] == ["fc_0_b_param"]
    torch.testing.assert_close(module.fc_0_b_param.grad, torch.full((3,), 5.0))


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_has_separate_memory(twin_of: Callable[[Any], Any]) -> None:
    module = scores_module().eval()
    twin = twin_of(module)
    expected = module(images()).detach()
    with torch.no_grad():
        twin.fc_0_b_param += 1
    torch.testing.assert_close(module(images()).detach(), expected)
    torch.testing.assert_close(twin(images()).detach(), expected + 1)
    assert twin.scope.find_var("fc_0_b_param").numpy()[0] == twin.fc_0_b_param[0]


def test_dots_in_names_separate_modules() -> None:
    block = ow.Program().global_block()
    x = block.create_var("x", [None, 2], "float32", is_data=True)
    scope = ow.Scope()
    weight = block.create_parameter("body.0.weight", [2, 2], "float32")
    scope.var("body.0.weight").set(np.eye(2, dtype=np.float32))
    out = block.var(block.append_op("matmul", {"x": x, "y": weight}).output("out")[0])
    module = opwright_torch.Module(block.program, scope, out)
    assert [name for name, _ in module.named_parameters()] == ["body.0.weight"]
    module.load_state_dict({"body.0.weight": torch.ones(2, 2)})
    torch.testing.assert_close(module(torch.ones(1, 2)).detach(), torch.full((1, 2), 2.0))


def test_calls_by_position_name_and_dict_agree() -> None:
    module = loss_module().eval()
    expected = module(images(), labels())
    assert module.feed_names == ("pixels", "label")
    for found in (
        module(images(), label=labels()),
        module(label=labels(), pixels=images()),
        module({"pixels": images(), "label": labels()}),
        module({"pixels": images()}, label=labels()),
    ):
        assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("args", "feeds", "message"),
    [
        ((1, 2, 3), {}, "must have the feeds 'pixels', 'label', got 3 by position"),
        ((1,), {}, "must have the feeds 'pixels', 'label', got none for 'label'"),
        ((1,), {"pixels": 2}, "got 'pixels' by position and by name"),
        ((1,), {"labels": 2}, "got 'labels'; did you mean 'label'"),
        ((1, 2), {}, "feed 'pixels' must be a torch.Tensor, got int; write torch.as_tensor"),
        (({"pixels": 1},), {}, "got none for 'label'"),
    ],
)
def test_errors_for_invalid_calls_suggest_a_fix(args: Any, feeds: Any, message: str) -> None:
    with pytest.raises(FeedError, match=message):
        loss_module()(*args, **feeds)


def test_errors_for_invalid_tensors_name_the_feed() -> None:
    module = scores_module()
    with pytest.raises(FeedError, match="feed 'pixels': dtype must be float32, got float64"):
        module(images().double())
    with pytest.raises(FeedError, match="feed 'pixels'"):
        module(torch.zeros(2, 2, 6, 6))
    assert module(images()).shape == (5, 3)


@pytest.mark.parametrize(
    "convert",
    [
        lambda m: m.half(),
        lambda m: m.to(torch.float64),
        lambda m: m.to("meta"),
        lambda m: m.to_empty(device="cpu"),
        lambda m: m.to(memory_format=torch.channels_last),
        lambda m: m.share_memory(),
        lambda m: nn.Sequential(m).double(),
    ],
)
def test_conversions_that_would_move_parameters_are_refused(convert: Callable[[Any], Any]) -> None:
    model, scores, _ = classifier()
    wide = model.conv2d("pixels", filters=4, kernel=3)
    wide = model.mean(model.conv2d(wide, filters=4, kernel=3))
    model.initialize_parameters()
    module = opwright_torch.Module(model.program, model.scope, [scores, wide])
    with pytest.raises(ProgramError, match="must stay in the memory of its scope, got a conversio"):
        convert(module)
    assert module(images())[0].dtype == torch.float32


def test_conversions_to_the_current_dtype_and_device_change_nothing() -> None:
    module = scores_module()
    assert module.to("cpu").float().to(torch.float32) is module
    module(images())


def test_assigned_states_are_refused() -> None:
    module = scores_module()
    with pytest.raises(ProgramError, match="must copy into the memory of the scope, got assign=Tr"):
        module.load_state_dict(module.state_dict(), assign=True)


def test_replaced_memory_of_a_variable_is_detected() -> None:
    module = scores_module()
    module.scope.var("something else").set(np.zeros(2))
    module(images())
    module.scope.var("fc_0_b_param").borrow(np.zeros(3, np.float32))
    with pytest.raises(
        ProgramError, match="'fc_0_b_param' must share its memory between the scope"
    ):
        module(images())


def test_wrong_programs_are_refused() -> None:
    model, scores, _ = classifier()
    for arguments, message in (
        ((torch.nn.Linear(1, 1),), "program must be a Program or a LoadedProgram, got Linear"),
        ((model.program, model.scope), "fetches must name at least one result, got none"),
        ((model.program, ow.Scope(), scores), "must have a value for 'conv2d_0_w_param', got none"),
    ):
        with pytest.raises(ProgramError, match=message):
            opwright_torch.Module(*arguments)
    loaded = ow.LoadedProgram(model.program, model.scope, [scores.name])
    with pytest.raises(
        ProgramError, match="a LoadedProgram must be the only argument, got a scope"
    ):
        opwright_torch.Module(loaded, model.scope)
    with pytest.raises(VariableNotFoundError, match="nothing"):
        opwright_torch.Module(model.program, model.scope, "nothing")


def test_read_only_memory_is_refused() -> None:
    model, scores, _ = classifier()
    array = model.scope.var("fc_0_b_param").numpy()
    array.flags.writeable = False
    model.scope.var("fc_0_b_param").borrow(array)
    with pytest.raises(ProgramError, match="'fc_0_b_param' must be in writable memory"):
        opwright_torch.Module(model.program, model.scope, scores)


def test_a_parameter_with_the_name_of_a_method_is_refused() -> None:
    block = ow.Program().global_block()
    scope = ow.Scope()
    block.create_parameter("train", [2], "float32")
    scope.var("train").set(np.zeros(2, np.float32))
    out = block.append_op("relu", {"x": "train"}).output("out")[0]
    with pytest.raises(ProgramError, match="a name that torch.nn.Module accepts, got 'train'"):
        opwright_torch.Module(block.program, scope, out)


def test_second_gradients_are_refused() -> None:
    module = scores_module()
    x = images().requires_grad_()
    (grad,) = torch.autograd.grad(module(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        grad.sum().backward()


def test_a_module_receives_floats_of_its_dtype_under_autocast() -> None:
    module = scores_module()
    body = nn.Linear(6, 6)
    with torch.autocast("cpu", torch.bfloat16):
        found = module(body(images()))
    assert found.dtype == torch.float32
    found.sum().backward()
    assert body.weight.grad is not None
