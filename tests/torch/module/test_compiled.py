"""A Program as a module under the PyTorch compiler, transforms and multiple processes."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from programs import classifier, images
from torch import nn
from torch.func import functional_call, grad, jacrev, stack_module_state, vmap

import opwright as ow
import opwright_torch
from every_case import EVERY

NEEDS_MINUTES = pytest.mark.skipif(not EVERY, reason="takes a minute: OPWRIGHT_EVERY_CASE=1")


def scores_module(p: float = 0.0) -> opwright_torch.Module:
    model, scores, _ = classifier(p)
    return opwright_torch.Module(model.program, model.scope, scores)


def assert_trains_alike(found: nn.Module, expected: nn.Module, **options: Any) -> Any:
    """Compare two steps of a compiled module and an uncompiled module."""
    compiled = torch.compile(found, fullgraph=True, **options)
    for n in (5, 3):
        for module, called in ((found, compiled), (expected, expected)):
            module.zero_grad()
            called(images(n)).square().mean().backward()
            torch.optim.SGD(module.parameters(), 0.1).step()
    for (name, a), b in zip(found.state_dict().items(), expected.state_dict().values()):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4, msg=name)
    return compiled


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "opwright"])
def test_a_compiled_module_trains_like_the_module(backend: str) -> None:
    module = scores_module()
    assert_trains_alike(module, copy.deepcopy(module), backend=backend)


@NEEDS_MINUTES
def test_inductor_compiles_a_module() -> None:
    module = scores_module()
    assert_trains_alike(module, copy.deepcopy(module), backend="inductor")


def test_a_program_becomes_part_of_the_plan() -> None:
    model = nn.Sequential(nn.Conv2d(1, 1, 1), scores_module(), nn.ReLU())
    compiled = assert_trains_alike(model, copy.deepcopy(model), backend="opwright")
    report = opwright_torch.report(compiled, measure=False)
    assert report.calls == ()
    assert set(report.plans) == {"two plans"}


def test_a_compiled_module_draws_new_numbers() -> None:
    compiled = torch.compile(scores_module(0.5), fullgraph=True, backend="opwright")
    with torch.no_grad():
        first, second = compiled(images()), compiled(images())
        assert not torch.equal(first, second)


def test_an_exported_module_supports_different_batch_sizes(tmp_path: Path) -> None:
    module = scores_module().eval()
    batch = torch.export.Dim("batch")
    exported = torch.export.export(module, (images(),), dynamic_shapes={"args": ({0: batch},)})
    torch.export.save(exported, tmp_path / "module.pt2")
    served = torch.export.load(tmp_path / "module.pt2").module()
    torch.testing.assert_close(served(images(3)), module(images(3)))


def test_the_operator_that_runs_programs_passes_the_pytorch_checks() -> None:
    module = scores_module()
    form = module._forms[True]
    given = [images(), *module._tensors]
    values = [*(given[i] for i in (*form.fed, *form.kept)), torch.tensor([7])]
    torch.library.opcheck(torch.ops.opwright._program.default, (values, form.text))


def test_functional_call_replaces_the_parameters_of_a_module() -> None:
    module, other = scores_module().eval(), scores_module().eval()
    found = functional_call(module, dict(other.named_parameters()), (images(),))
    expected = copy.deepcopy(module)
    expected.load_state_dict({**other.state_dict(), **dict(module.named_buffers())})
    torch.testing.assert_close(found, expected(images()))


def test_torch_func_transforms_match_pytorch() -> None:
    module = scores_module().eval()
    parameters = {name: p.detach() for name, p in module.named_parameters()}

    def loss(given: Any, x: torch.Tensor) -> torch.Tensor:
        return functional_call(module, given, (x,)).square().sum()

    module(images()).square().sum().backward()
    for name, found in grad(loss)(parameters, images()).items():
        expected = module.get_parameter(name).grad
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)
    each = vmap(grad(loss), (None, 0))(parameters, images().unsqueeze(1))
    assert each["fc_0_b_param"].shape == (5, 3)
    torch.testing.assert_close(each["fc_0_b_param"].sum(0), module.fc_0_b_param.grad)
    x = images().requires_grad_()
    module(x).square().sum().backward()
    torch.testing.assert_close(grad(loss, 1)(parameters, images()), x.grad, atol=2e-5, rtol=1e-4)
    hessian = jacrev(grad(loss))({"fc_0_b_param": parameters["fc_0_b_param"]}, images())
    expected = 10 * torch.eye(3)
    torch.testing.assert_close(hessian["fc_0_b_param"]["fc_0_b_param"], expected)


def test_an_ensemble_is_computed_in_one_call() -> None:
    modules, x = [scores_module().eval() for _ in range(2)], images()
    state = stack_module_state(modules)
    found = vmap(lambda p, b: functional_call(modules[0], (p, b), (x,)))(*state)
    expected = torch.stack([module(x) for module in modules])
    torch.testing.assert_close(found, expected)


def loop_module() -> opwright_torch.Module:
    """Return a module that adds 1 to its feed and doubles the sum three times."""
    import opwright_nn

    model = opwright_nn.Model()
    x = model.input("x", [2])
    block = model.program.global_block()
    i = block.var(block.append_op("fill", {}, {}, {"shape": [1], "value": 0}).output("out")[0])
    _, out = model.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), (i, x + 1.0), max_steps=4
    )
    return opwright_torch.Module(model.program, ow.Scope(), out)


@pytest.mark.parametrize("backend", ["eager", "opwright"])
def test_loops_of_a_program_run_as_one_operator(backend: str) -> None:
    module = loop_module()
    x = torch.tensor([1.0, 2.0])
    expected = torch.tensor([16.0, 24.0])
    torch.testing.assert_close(module(x), expected)
    compiled = torch.compile(module, fullgraph=True, backend=backend)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), expected)
    for called in (module, compiled):
        (found,) = torch.autograd.grad(called(x.requires_grad_()).sum(), x)
        torch.testing.assert_close(found, torch.full((2,), 8.0))


SCRIPT = """
import sys
sys.path.insert(0, {room!r})
import torch, opwright_torch
from programs import classifier, images, labels
from torch.distributed import init_process_group, destroy_process_group
from torch.nn.parallel import DistributedDataParallel

rank = int(sys.argv[1])
torch.set_num_threads(1)
init_process_group("gloo", init_method={address!r}, rank=rank, world_size=2)
model, _, loss = classifier()
module = opwright_torch.Module(model.program, model.scope, loss)
parallel = DistributedDataParallel(module)
optimizer = torch.optim.SGD(parallel.parameters(), 0.1)
for turn in range(2):
    optimizer.zero_grad()
    parallel(images(4 + rank), labels(4 + rank)).backward()
    optimizer.step()
torch.save((module.state_dict(), [p.grad for p in module.parameters()]), sys.argv[2])
destroy_process_group()
"""


@NEEDS_MINUTES
def test_two_processes_train_one_module(tmp_path: Path) -> None:
    room, address = str(Path(__file__).parent), f"file://{tmp_path}/meeting"
    script = SCRIPT.format(room=room, address=address)
    outputs = [tmp_path / f"{rank}.pt" for rank in range(2)]
    runs = [
        subprocess.Popen([sys.executable, "-c", script, str(rank), str(output)])
        for rank, output in enumerate(outputs)
    ]
    assert [run.wait(120) for run in runs] == [0, 0]
    (state, gradients), (other, others) = (torch.load(output) for output in outputs)
    for name in ("conv2d_0_w_param", "fc_0_w_param"):
        assert torch.equal(state[name], other[name])
    for a, b in zip(gradients, others, strict=True):
        assert torch.equal(a, b)
        assert a.any()
