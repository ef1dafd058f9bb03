"""Models under `torch.compile(backend="opwright")` and as programs, compared with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from networks.torch_models import RECIPES, Recipe
from peers import find_peers
from workload import Goal, Timed, Workload
from workloads.memory import STEPS, read_status

EAGER, LAST, INDUCTOR = "torch", "torch channels last", "torch inductor"


def prepare(recipe: Recipe, is_training: bool, who: str) -> tuple[Any, Any, Any]:
    """Return a model, its inputs and its labels."""
    if who.startswith("opwright"):
        find_peers()
    import torch

    torch.manual_seed(28)
    model, (x, labels) = recipe.make().train(is_training), recipe.batch(is_training)
    if who == LAST and x.dim() == 4:
        model, x = (
            model.to(memory_format=torch.channels_last),
            x.contiguous(memory_format=torch.channels_last),
        )
    return model, x, labels


def loss_of(model: Any, x: Any, labels: Any) -> Any:
    """Return the mean cross entropy."""
    from torch.nn import functional

    scores = model(x)
    return functional.cross_entropy(scores.view(-1, scores.shape[-1]), labels.view(-1))


def training(recipe: Recipe, who: str) -> Timed:
    """Return a training step with fused Adam."""
    model, x, labels = prepare(recipe, True, who)
    import torch

    function: Callable[..., Any] = loss_of
    if who == "opwright one plan":
        function = torch.compile(loss_of, backend="opwright")
    elif who == INDUCTOR:
        function = torch.compile(loss_of)
    elif who == "opwright two plans":
        model = torch.compile(model, backend="opwright")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def step() -> float:
        optimizer.zero_grad()
        loss = function(model, x, labels)
        loss.backward()
        optimizer.step()
        return loss

    return Timed(step, values=[float(step().detach())])


def whole_step(recipe: Recipe, who: str) -> Timed:
    """Return a training step with Adam; in opwright, one plan includes the update."""
    if who != "opwright":
        return training(recipe, who)
    model, x, labels = prepare(recipe, True, who)
    import torch

    import opwright_torch

    def loss_of_scores(scores: Any, labels: Any) -> Any:
        return torch.nn.functional.cross_entropy(scores.view(-1, scores.shape[-1]), labels.view(-1))

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    step = opwright_torch.train_step(model, loss_of_scores, optimizer)
    return Timed(lambda: step(x, labels), values=[float(step(x, labels))])


def step_memory(recipe: Recipe, who: str) -> Timed:
    """Return the peak memory of a process, including PyTorch, that runs complete training steps."""
    timed = whole_step(recipe, who)
    assert timed.call is not None
    for _ in range(STEPS):
        timed.call()
    size_bytes = float(read_status("VmHWM"))
    return Timed(values=timed.values, measure=lambda: [size_bytes])


def inference(recipe: Recipe, who: str) -> Timed:
    """Return a call of the model on one example."""
    model, x, _ = prepare(recipe, False, who)
    import torch

    torch.set_grad_enabled(False)
    if who == INDUCTOR:
        import torch._inductor.config

        torch._inductor.config.freezing = True
        model = torch.compile(model)
    elif who == "opwright":
        model = torch.compile(model, backend="opwright")
    return Timed(lambda: model(x), values=[float(model(x).abs().sum())])


def serving(recipe: Recipe, who: str) -> Timed:
    """Return a call of the program converted from the model, or of the model in PyTorch."""
    if who != "opwright":
        return inference(recipe, who)
    model, x, _ = prepare(recipe, False, who)
    import opwright_torch

    served = opwright_torch.to_program(model, (x,))
    given = x.numpy()
    return Timed(lambda: served(given), values=[float(abs(served(given)[0]).sum())])


def workloads(name: str, recipe: Recipe) -> list[Workload]:
    """Return the rows of a model."""
    peers = [EAGER, INDUCTOR] if name in ("mlp", "gpt") else [EAGER, LAST, INDUCTOR]
    return [
        Workload(
            f"torch-{name}-train",
            f"a training step in PyTorch with fused Adam of {recipe.title}",
            "ms",
            {
                who: partial(training, recipe, who)
                for who in ("opwright one plan", "opwright two plans", *peers)
            },
            {"opwright one plan": [Goal(ratio=1.0)], "opwright two plans": [Goal(ratio=1.05)]},
        ),
        Workload(
            f"torch-{name}-step",
            f"a whole training step with Adam of {recipe.title}",
            "ms",
            {who: partial(whole_step, recipe, who) for who in ("opwright", *peers)},
            {"opwright": [Goal(ratio=0.65)]},
        ),
        Workload(
            f"memory-torch-{name}-step",
            f"peak memory of a process with such steps of {recipe.title}",
            "MiB",
            {who: partial(step_memory, recipe, who) for who in ("opwright", EAGER)},
            {"opwright": [Goal(ratio=0.85)]},
        ),
        Workload(
            f"torch-{name}-infer",
            "inference of it on one example",
            "ms",
            {who: partial(inference, recipe, who) for who in ("opwright", *peers)},
            {"opwright": [Goal(ratio=0.85)]},
        ),
        Workload(
            f"torch-{name}-served",
            "the same by a program of opwright, without PyTorch",
            "ms",
            {who: partial(serving, recipe, who) for who in ("opwright", *peers)},
            {"opwright": [Goal(ratio=0.6)]},
        ),
    ]


WORKLOADS = [row for name, recipe in RECIPES.items() for row in workloads(name, recipe)]
