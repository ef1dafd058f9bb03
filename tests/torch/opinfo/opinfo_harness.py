"""Runs samples of PyTorch's operators in plans, and compares values, dtypes and gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import torch
from opinfo_entries import is_random
from torch._subclasses.functional_tensor import FunctionalTensorMode, dispatch_functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

import opwright as ow
from opwright.errors import GradientError
from opwright_torch.dtypes import NAMES
from opwright_torch.translate import Translated, Translator

Tensors = list[torch.Tensor]

TOLERANCES: Final = {
    torch.float64: 1e-9,
    torch.float32: 2e-5,
    torch.float16: 3e-3,
    torch.bfloat16: 2.5e-2,
}
"""Relative to each element, and to the largest one."""


class Outcome(NamedTuple):
    """What became of one sample."""

    kind: str  # "ours", "called", "refused", "wrong"
    reasons: tuple[str, ...] = ()


class Sample(NamedTuple):
    """A function of tensors, and these."""

    function: Callable[..., tuple[torch.Tensor, ...]]
    tensors: Tensors


class WrongError(Exception):
    """Raised where a plan and PyTorch differ."""


class RefusedError(Exception):
    """Raised where there is no plan to compare."""


def draw(entry: Any, dtype: torch.dtype, most: int | None, gradient: bool) -> Iterator[Sample]:
    """Yield the first samples of an entry, `most` of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = entry.sample_inputs("cpu", dtype, requires_grad=gradient)
        drawn = list(islice(samples, most))
        if isinstance(samples, Generator):
            samples.close()  # else whenever garbage is collected, which is then traced
    for sample in drawn:
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

    return Sample(function, [leaves[i] for i in places])


def try_sample(entry: Any, sample: Sample, gradient: bool) -> Outcome:
    """Return what became of a sample: its values, or its gradients."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = sample.function(*sample.tensors)
            if any(t.dtype not in NAMES for t in (*expected, *sample.tensors)):
                return Outcome("left out", ("a dtype that opwright lacks",))
            translated = capture(sample)
            check = _check_gradients if gradient else _check_values
            check(translated, sample, expected, is_random(entry))
        except RefusedError as error:
            return Outcome("refused", (str(error),))
        except WrongError as error:
            return Outcome("wrong", (str(error),))
    reasons = tuple(f"{d.node.target}: {d.reason}" for d in translated.declined)
    return Outcome("called" if reasons else "ours", reasons)


def capture(sample: Sample) -> Translated:
    """Return the Program of a sample; RefusedError where there is none."""
    tensors = [t.detach() for t in sample.tensors]
    mode = FunctionalTensorMode(pre_dispatch=True, export=True)
    try:
        traced = make_fx(
            dispatch_functionalize(sample.function, mode), tracing_mode="fake", pre_dispatch=True
        )(*tensors)
    except Exception as error:
        raise RefusedError(f"PyTorch cannot trace it: {_first_line(error)}") from error
    wanted = [i for i, t in enumerate(sample.tensors) if t.requires_grad]
    if any(
        node.target is torch.ops.aten._local_scalar_dense.default for node in traced.graph.nodes
    ):
        raise RefusedError("a number that is computed from elements")
    translator = Translator(traced, {})
    try:
        return translator.run(traced.graph, frozenset(), frozenset(wanted))
    except NotImplementedError as error:
        node, reason = translator._declined[-1]
        raise RefusedError(f"{node.target}: {reason}") from error
    except Exception as error:
        raise WrongError(f"the translator fails: {_shown(error)}") from error


def _run(translated: Translated, tensors: Tensors, fetch: list[Any]) -> Tensors:
    scope = ow.Scope()
    for name, constant in translated.constants.items():
        scope.var(name).borrow(constant.detach().contiguous())
    fed = {n: t.detach() for n, t in zip(translated.inputs, tensors) if n is not None}
    try:
        compiled = ow.Network(translated.program.global_block()).compile(
            list(fed), fetch, scope=scope, fetch_as=torch.Tensor, detach=True
        )
        return list(compiled(*fed.values()))
    except Exception as error:
        raise WrongError(f"the plan fails: {_shown(error)}") from error


def _check_values(
    translated: Translated, sample: Sample, expected: tuple[torch.Tensor, ...], random: bool
) -> None:
    results = _run(translated, sample.tensors, translated.outputs)
    for i, (result, truth) in enumerate(zip(results, expected, strict=True)):
        check_one(f"output {i}", result, truth.detach(), random)


def _check_gradients(
    translated: Translated, sample: Sample, expected: tuple[torch.Tensor, ...], random: bool
) -> None:
    block = translated.program.global_block()
    targets = [i for i, t in enumerate(expected) if t.requires_grad]
    wanted = [i for i, t in enumerate(sample.tensors) if t.requires_grad]
    if random or not targets or not wanted:
        return
    generator = torch.Generator().manual_seed(7)
    weights = [
        torch.randn(expected[i].shape, dtype=torch.float64, generator=generator).to(
            expected[i].dtype
        )
        for i in targets
    ]
    truths = torch.autograd.grad(
        [expected[i] for i in targets],
        [sample.tensors[i] for i in wanted],
        weights,
        allow_unused=True,
    )
    seeds = [
        block.create_var(
            block.program.free_name("weight"), list(w.shape), NAMES[w.dtype], is_data=True
        )
        for w in weights
    ]
    # One variable may be two outputs.
    losses = [
        block.append_op("multiply", {"x": translated.outputs[i], "y": seed}, {}, {})
        for i, seed in zip(targets, seeds)
    ]
    ends = [block.var(next(iter(loss.output_names()))) for loss in losses]
    names = [translated.inputs[i] for i in wanted]
    gradients = _append(ends, [name for name in names if name is not None])
    present = [(i, gradients[name]) for i, name in zip(wanted, names) if name in gradients]
    by_place = dict(zip(wanted, truths))
    for i, truth in by_place.items():
        if truth is not None and truth.count_nonzero() and i not in dict(present):
            raise WrongError(f"input {i} has no gradient of ours")
    fed = [*sample.tensors, *weights]
    seeded = translated._replace(inputs=[*translated.inputs, *(s.name for s in seeds)])
    for (i, _), result in zip(present, _run(seeded, fed, [g for _, g in present])):
        truth = by_place[i]
        truth = torch.zeros_like(sample.tensors[i]) if truth is None else truth
        check_one(f"gradient of input {i}", result, truth, False)


def _append(ends: list[Any], names: list[str]) -> dict[str, Any]:
    """Return gradients of the inputs that the targets depend on."""
    while names:
        try:
            return {v.name: g for v, g in ow.append_backward(ends, names)}
        except GradientError as error:
            lacking = [n for n in names if f"depend on {n!r}" in str(error)]
            lacking += [n for n in names if f"{n!r} gets no gradient" in str(error)]
            if not lacking:
                raise WrongError(f"no gradient: {_shown(error)}") from error
            names = [name for name in names if name not in lacking]
        except Exception as error:
            raise WrongError(f"append_backward fails: {_shown(error)}") from error
    return {}


def check_one(label: str, result: torch.Tensor, truth: torch.Tensor, random: bool) -> None:
    """Raise WrongError where a result differs from PyTorch's."""
    if (result.dtype, result.shape) != (truth.dtype, truth.shape):
        raise WrongError(
            f"{label}: {result.dtype} {list(result.shape)} instead of {truth.dtype} "
            f"{list(truth.shape)}"
        )
    if random or truth.numel() == 0:
        return
    tolerance = TOLERANCES.get(truth.dtype, 0.0)
    finite = truth[torch.isfinite(truth)] if truth.is_floating_point() else truth
    largest = finite.abs().max().item() if tolerance and finite.numel() else 0.0
    try:
        torch.testing.assert_close(
            result,
            truth,
            rtol=tolerance,
            atol=tolerance * min(largest, 1.0) if largest else tolerance,
            equal_nan=True,
        )
    except AssertionError as error:
        raise WrongError(f"{label}: {' '.join(str(error).split())}") from None


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]
