"""Outputs, gradients and optimizer steps of a model, eager or compiled, compared with float64.

The error of a compiled model can be up to four times that of PyTorch in float32.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

MOST: Final = 4.0
FLOOR: Final = 2e-6
"""Smaller errors, relative to the norm of a result, are ignored."""

NUDGE: Final = 8 * 2.0**-24
"""Relative to each weight; thus the errors of outputs are about `MOST` times PyTorch's."""

OPTIMIZERS: Final[dict[str, Callable[[Any], Any]]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.01, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, 1e-3, eps=1e-3),
}
"""Adam divides by gradients that may be rounding errors: a large `eps` limits these."""

Results = dict[str, Tensor]


class Course(NamedTuple):
    """How a model is trained."""

    inputs: Sequence[tuple[Tensor, ...]]  # of the calls in order
    optimizer: str | None = None  # None for one call without gradients


def run(model: nn.Module, course: Course, compile: Callable[[nn.Module], Any]) -> Results:
    """Return outputs, gradients and the final state by name.

    Parameters
    ----------
    model : Module
        Is changed by training.
    course : Course
    compile : callable
        Returns the callable that replaces the model.
    """
    found: Results = {}
    called = compile(model)
    if course.optimizer is None:
        for turn, inputs in enumerate(course.inputs):
            with torch.no_grad():
                _note(found, f"call {turn}", _outputs(called(*inputs)))
        return found
    optimizer = OPTIMIZERS[course.optimizer](model.parameters())
    for turn, inputs in enumerate(course.inputs):
        optimizer.zero_grad()
        outputs = _outputs(called(*inputs))
        _note(found, f"call {turn}", outputs)
        _loss(outputs).backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        found[f"gradients {turn}"] = torch.cat([g.detach().flatten() for g in gradients]).clone()
        optimizer.step()
    for name, value in model.state_dict().items():
        found[name] = value.detach().clone()
    return found


def _outputs(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def _note(found: Results, label: str, outputs: list[Tensor]) -> None:
    found.update({f"{label}, output {i}": o.detach().clone() for i, o in enumerate(outputs)})


def _loss(outputs: list[Tensor]) -> Tensor:
    """Return a loss that weights every element differently."""
    losses = []
    for output in outputs:
        weights = torch.cos(torch.arange(output.numel(), dtype=torch.float64))
        losses.append((output * weights.reshape(output.shape).to(output.dtype)).sum())
    return torch.stack(losses).sum() / sum(o.numel() for o in outputs)


class Errors(NamedTuple):
    """The distances of each run from the float64 run, relative to the float64 norms, by tensor."""

    ours: dict[str, float]
    theirs: dict[str, float]
    nudged: Sequence[dict[str, float]] = ()  # of PyTorch after `nudge`

    def excess(self, most: float = MOST) -> dict[str, tuple[float, float]]:
        """Return the tensors whose error exceeds `most` times the error of PyTorch."""
        return {
            name: (ours, self.theirs[name])
            for name, ours in self.ours.items()
            if not ours <= most * self.theirs[name] + FLOOR
        }


def jumps(draws: Sequence[Errors], most: float = MOST) -> bool:
    """Return whether kinks explain the excessive errors, given the errors of several draws.

    If rounding moves an element across the kink of a relu or a maximum, its gradient jumps, also in
    PyTorch in float32. Kinks explain the errors if no error exceeds `most` times the largest
    PyTorch error over all draws, with and without `nudge`, and if in at least one draw no error
    exceeds `most` times the largest PyTorch error of that draw.
    """
    every = [found for d in draws for found in (d.theirs, *d.nudged)]
    return any(_is_explained(d, (d.theirs, *d.nudged), most) for d in draws) and all(
        _is_explained(d, every, most) for d in draws
    )


def _is_explained(draw: Errors, theirs: Sequence[dict[str, float]], most: float) -> bool:
    worst = {name: max(found[name] for found in theirs) for name in draw.theirs}
    return not draw._replace(theirs=worst).excess(most)


def nudge(model: nn.Module) -> nn.Module:
    """Perturb each weight by a few rounding errors, as a different algorithm perturbs outputs."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + NUDGE * torch.randn_like(parameter))
    return model


def errors(
    model: nn.Module, course: Course, compile: Callable[[nn.Module], Any], n_nudged: int = 0
) -> Errors:
    """Return the errors of a compiled model and of PyTorch, against the same model in float64."""
    precise = course._replace(
        inputs=[
            tuple(t.double() if t.is_floating_point() else t for t in inputs)
            for inputs in course.inputs
        ]
    )
    truth = run(copy.deepcopy(model).double(), precise, lambda found: found)
    theirs = _distances(run(copy.deepcopy(model), course, lambda found: found), truth)
    ours = _distances(run(copy.deepcopy(model), course, compile), truth)
    nudged = [_distances(run(copy.deepcopy(model), course, nudge), truth) for _ in range(n_nudged)]
    return Errors(ours, theirs, nudged)


def _distances(found: Results, truth: Results) -> dict[str, float]:
    if found.keys() != truth.keys():
        raise AssertionError(f"other results: {sorted(found.keys() ^ truth.keys())}")
    typical = _typical(truth)
    return {name: _distance(found[name], value, typical) for name, value in truth.items()}


def _typical(truth: Results) -> float:
    """Return the typical magnitude of an element: the median over all parameters and buffers.

    A tensor that is zero except for rounding, such as a bias before a batch norm or the mean of
    normalized values, is measured relative to this magnitude, since its own norm is meaningless.
    """
    state = [value for name, value in truth.items() if not name.startswith(("call ", "gradients "))]
    sizes = [v.square().mean().sqrt().item() for v in state if v.is_floating_point() and v.numel()]
    return median(sizes) if sizes else 0.0


def _distance(found: Tensor, truth: Tensor, typical: float) -> float:
    if found.shape != truth.shape:
        raise AssertionError(f"shape {list(found.shape)} instead of {list(truth.shape)}")
    if truth.numel() == 0:
        return 0.0
    largest = max(truth.double().norm().item(), typical * truth.numel() ** 0.5)
    return (found.double() - truth.double()).norm().item() / max(largest, 1e-12)
