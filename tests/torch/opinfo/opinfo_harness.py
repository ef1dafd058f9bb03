"""Runs samples of PyTorch's operators in plans, and compares values, dtypes and gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from operator import getitem
from typing import Any, Final, NamedTuple

import torch
from opinfo_entries import UNDETERMINED
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.utils._pytree import tree_flatten, tree_unflatten

from opwright_torch.backend import opwright
from opwright_torch.capture import CaptureError
from opwright_torch.dtypes import NAMES

Tensors = list[torch.Tensor]

TOLERANCES: Final = {
    torch.float64: 1e-9,
    torch.float32: 2e-5,
    torch.float16: 3e-3,
    torch.bfloat16: 2.5e-2,
}
"""Tolerances relative to each element and to the largest element."""

COARSE: Final = {"nn.functional.hardsigmoid": 1e-7}
"""Tolerances of operators that PyTorch computes in float64 with constants of float32."""


class Outcome(NamedTuple):
    """The outcome of one sample."""

    kind: str  # "ours", "called", "refused", "wrong"
    reasons: tuple[str, ...] = ()


class Sample(NamedTuple):
    """A function of tensors, and the tensors to call it with."""

    function: Callable[..., tuple[torch.Tensor, ...]]
    tensors: Tensors
    tolerance: float = 0.0  # raises that of the dtype
    undetermined: int = -1  # the output whose values are not compared


class WrongError(Exception):
    """Raised if a plan and PyTorch differ."""


class RefusedError(Exception):
    """Raised if there is no plan to compare."""


def draw(entry: Any, dtype: torch.dtype, most: int | None, gradient: bool) -> Iterator[Sample]:
    """Yield the first `most` samples of an entry."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # A list, since the garbage collection of an unfinished generator could be traced.
        samples = list(entry.sample_inputs("cpu", dtype, requires_grad=gradient))
    for sample in samples[:most]:
        yield _as_sample(entry, sample)


def _as_sample(entry: Any, sample: Any) -> Sample:
    leaves, spec = tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = list(leaves)
        for i, tensor in zip(places, tensors):
            values[i] = tensor
        given, args, kwargs = tree_unflatten(values, spec)
        results = entry.op(given, *args, **kwargs)
        if sample.output_process_fn_grad is not None:
            results = sample.output_process_fn_grad(results)
        return tuple(leaf for leaf in tree_flatten(results)[0] if isinstance(leaf, torch.Tensor))

    return Sample(
        function,
        [leaves[i] for i in places],
        COARSE.get(entry.name, 0.0),
        UNDETERMINED.get(entry.name, -1),
    )


def try_sample(sample: Sample, gradient: bool) -> Outcome:
    """Return the outcome of a sample; of random operators only shapes and dtypes are compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            copies = copy_all(sample.tensors)
            expected = sample.function(*copies)
            if any(t.dtype not in NAMES for t in (*expected, *sample.tensors)):
                return Outcome("left out", ("a dtype that opwright lacks",))
            region = compile_sample(sample)
            results = _run(region, sample.tensors)
            random = _is_random(region)
            compare(sample, results, expected, random)
            if gradient and not random:
                check_gradients(sample, copies, expected, results)
            for i, (tensor, copy) in enumerate(zip(sample.tensors, copies)):
                check_one(f"input {i} behind the call", tensor.detach(), copy.detach(), random, 0.0)
        except RefusedError as error:
            return Outcome("refused", (str(error),))
        except WrongError as error:
            return Outcome("wrong", (str(error),))
    declined = [d for plan in region.plans for d in plan.draft.translated.declined]
    reasons = tuple(f"{d.node.target}: {d.reason}" for d in declined)
    return Outcome("called" if reasons else "ours", reasons)


def copy_all(tensors: Tensors) -> Tensors:
    return [deepcopy(t.detach()).requires_grad_(t.requires_grad) for t in tensors]


def _is_random(region: Any) -> bool:
    """Return whether the plan, or PyTorch within it, draws random numbers."""
    (plan,) = region.plans
    targets = [d.node.target for d in plan.draft.translated.declined]
    tag = torch.Tag.nondeterministic_seeded
    return plan.draft.is_random or any(tag in target.tags for target in targets)


def compile_sample(sample: Sample) -> Any:
    """Compile a sample with the backend; raise RefusedError if PyTorch cannot trace it."""
    graph = Graph()
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(tensor) for tensor in sample.tensors]
    nodes = [graph.placeholder(f"input_{i}") for i in range(len(fakes))]
    try:
        with mode:
            values = sample.function(*fakes)
    except Exception as error:
        raise RefusedError(f"PyTorch cannot trace it: {first_line(error)}") from error
    called = graph.call_function(sample.function, tuple(nodes))
    results = [graph.call_function(getitem, (called, i)) for i in range(len(values))]
    graph.output(tuple(results))
    for node, value in zip((*nodes, *results), (*fakes, *values)):
        node.meta["example_value"] = value
    try:
        return opwright(GraphModule(nn.Module(), graph), sample.tensors)
    except CaptureError as error:
        raise RefusedError(first_line(error)) from error
    except Exception as error:
        raise WrongError(f"the backend fails: {_shown(error)}") from error


def _run(region: Any, tensors: Tensors) -> Tensors:
    try:
        return list(region(*tensors))
    except Exception as error:
        raise WrongError(f"the plan fails: {_shown(error)}") from error


def compare(sample: Sample, results: Tensors, expected: Sequence[Any], random: bool) -> None:
    """Raise WrongError if results differ from the PyTorch results."""
    for i, (result, truth) in enumerate(zip(results, expected, strict=True)):
        unknown = random or i == sample.undetermined
        check_one(f"output {i}", result.detach(), truth.detach(), unknown, sample.tolerance)


def check_gradients(
    sample: Sample, copies: Tensors, expected: Sequence[Any], results: Tensors
) -> None:
    """Compare the gradients of our tensors with the gradients of their PyTorch copies."""
    wanted = [tensor for tensor in sample.tensors if tensor.requires_grad]
    theirs = [tensor for tensor in copies if tensor.requires_grad]
    places = [i for i, result in enumerate(expected) if result.requires_grad]
    if not wanted or not places:
        return
    generator = torch.Generator().manual_seed(7)
    weights = [
        torch.randn(expected[i].shape, dtype=torch.float64, generator=generator) for i in places
    ]
    weights = [w.to(expected[i].dtype) for w, i in zip(weights, places)]
    for i in places:
        if not results[i].requires_grad:
            raise WrongError(f"output {i} does not require a gradient")
    truths = _differentiate([expected[i] for i in places], theirs, weights)
    try:
        gradients = _differentiate([results[i] for i in places], wanted, weights)
    except Exception as error:
        raise WrongError(f"the gradient fails: {_shown(error)}") from error
    for i, (tensor, gradient, truth) in enumerate(zip(wanted, gradients, truths)):
        zeros = torch.zeros_like(tensor)
        check_one(
            f"gradient {i}",
            zeros if gradient is None else gradient,
            zeros if truth is None else truth,
            False,
            sample.tolerance,
        )


def _differentiate(targets: Tensors, wanted: Tensors, weights: Tensors) -> Any:
    return torch.autograd.grad(targets, wanted, weights, allow_unused=True)


def check_one(
    label: str, result: torch.Tensor, truth: torch.Tensor, random: bool, tolerance: float
) -> None:
    """Raise WrongError if a result differs from the PyTorch result."""
    if (result.dtype, result.shape) != (truth.dtype, truth.shape):
        raise WrongError(
            f"{label}: {result.dtype} {list(result.shape)} instead of {truth.dtype} "
            f"{list(truth.shape)}"
        )
    if random or truth.numel() == 0:
        return
    if truth.dtype == torch.float16:  # sums in PyTorch overflow earlier
        result = torch.where(truth.isinf() & result.isfinite(), truth, result)
    tolerance = max(tolerance, TOLERANCES.get(truth.dtype, 0.0))
    finite = truth[torch.isfinite(truth)] if truth.is_floating_point() else truth
    largest = finite.abs().max().item() if tolerance and finite.numel() else 0.0
    try:
        torch.testing.assert_close(
            result,
            truth,
            rtol=tolerance,
            atol=tolerance * (largest + 0.1),
            equal_nan=True,
        )
    except AssertionError as error:
        raise WrongError(f"{label}: {' '.join(str(error).split())}") from None


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]
