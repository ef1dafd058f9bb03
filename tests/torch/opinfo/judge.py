"""Checks ``opwright.ops`` with PyTorch's own samples of its operators, through the adapters.

It compares values of eager calls in every dtype, of the same calls on non-contiguous tensors, and
gradients of programs, with OpInfo's tolerances.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from adapters import ADAPTERS, Adapter, RandomError, UnmappedError
from on_purpose import AS_WHOLE, INSTEAD, MARKS, REFERENCES, WITHOUT_GRADIENT
from opinfo_entries import UNDETERMINED
from opinfo_harness import Outcome, Tensors, WrongError, first_line
from torch.testing._comparison import default_tolerances
from torch.testing._internal.common_device_type import precisionOverride, toleranceOverride
from torch.utils._pytree import tree_flatten, tree_unflatten

import opwright as ow
from opwright.errors import GradientError, OpwrightError

PHASES: Final = ("values", "references", "non-contiguous", "gradients")

MOST_CONSTANT: Final = 4096
"""The maximum size of an array that becomes a constant of a program."""

MOST_ELEMENTS: Final = 200_000
"""The maximum sample size; larger samples only repeat the cases of smaller ones."""


class DiffersError(Exception):
    """Raised if opwright differs intentionally, as listed in docs/differences.md."""


class Task(NamedTuple):
    """One call, made both in PyTorch and in opwright."""

    entry: Any
    adapter: Adapter
    leaves: list[Any]
    spec: Any
    dtype: torch.dtype
    reference: Any = None  # the sample as NumPy arrays

    def arguments(self, leaves: list[Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        given, args, kwargs = tree_unflatten(leaves, self.spec)
        return given, args, kwargs

    def expected(self, leaves: list[Any]) -> Any:
        """Return the result of the PyTorch function, or of its NumPy reference."""
        if self.reference is not None:
            numpys = self.reference
            results = self.entry.ref(numpys.input, *numpys.args, **numpys.kwargs)
            return [torch.as_tensor(np.array(r)) for r in tree_flatten(results)[0]]
        given, args, kwargs = self.arguments(leaves)
        return self.entry.op(given, *args, **kwargs)

    def ours(self, leaves: list[Any]) -> Any:
        given, args, kwargs = self.arguments(leaves)
        return self.adapter(given, *args, **kwargs)


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def draw(entry: Any, dtype: torch.dtype, phase: str) -> Iterator[Task]:
    """Yield the samples of an entry, with reference samples if values are compared."""
    gradient = phase == "gradients"
    torch.manual_seed(11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kinds = [entry.sample_inputs]
        if phase == "values" and entry.reference_inputs_func is not None:
            kinds.append(entry.reference_inputs)
        samples = [s for kind in kinds for s in kind("cpu", dtype, requires_grad=gradient)]
    for sample in samples:
        given = sample.noncontiguous() if phase == "non-contiguous" else sample
        leaves, spec = tree_flatten((given.input, tuple(given.args), dict(given.kwargs)))
        tensors = [leaf for leaf in leaves if is_tensor(leaf)]
        is_complex = any(isinstance(leaf, complex) for leaf in leaves)
        if is_complex or any(t.is_complex() or t.numel() > MOST_ELEMENTS for t in tensors):
            continue
        reference = sample.numpy() if phase == "references" else None
        yield Task(entry, ADAPTERS[entry.name], leaves, spec, dtype, reference)


def tolerance_of(entry: Any, dtype: torch.dtype) -> tuple[float, float]:
    """Return OpInfo's relative and absolute tolerance of an operator in a dtype."""
    rtol, atol = default_tolerances(dtype)
    for info in entry.decorators:
        if getattr(info, "device_type", None) not in (None, "cpu"):
            continue
        for decorator in getattr(info, "decorators", [info]):
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                given = decorator.d[dtype]
                rtol, atol = max(rtol, given.rtol), max(atol, given.atol)
            elif isinstance(decorator, precisionOverride) and dtype in decorator.d:
                atol = max(atol, decorator.d[dtype])
    return rtol, atol


def judge(task: Task, phase: str) -> Outcome:
    """Return the outcome of a sample; it is ``left out`` if PyTorch itself fails."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            copies = [_copy(leaf) for leaf in task.leaves]
            expected = tree_flatten(task.expected(copies))[0]
        except Exception as error:  # noqa: BLE001 - PyTorch has no answer
            return Outcome("left out", (f"PyTorch fails: {first_line(error)}",))
        truths = [leaf for leaf in expected if is_tensor(leaf)]
        if not truths or any(t.is_complex() or t.is_sparse or t.is_quantized for t in truths):
            return Outcome("left out", ("complex or sparse results",))
        try:
            if phase == "gradients":
                check_gradients(task, copies, truths)
            else:
                check_values(task, truths)
        except DiffersError as error:
            return Outcome("differs", (str(error),))
        except WrongError as error:
            return Outcome("failed", (str(error),))
        except RandomError as error:
            return Outcome("left out", (str(error),))
        except (OpwrightError, UnmappedError) as error:
            return Outcome("refused", (f"{type(error).__name__}: {first_line(error)}",))
        except Exception as error:  # noqa: BLE001 - whatever is raised counts as a failure
            return Outcome("failed", (f"{type(error).__name__}: {first_line(error)}",))
    return Outcome("passed")


def _copy(leaf: Any) -> Any:
    return leaf.detach().clone().requires_grad_(leaf.requires_grad) if is_tensor(leaf) else leaf


def check_values(task: Task, truths: Tensors) -> None:
    results = flat_tensors(task.ours([_detached(leaf) for leaf in task.leaves]))
    if len(results) != len(truths):
        raise WrongError(f"{len(results)} results instead of {len(truths)}")
    for i, (result, truth) in enumerate(zip(results, truths)):
        if i == UNDETERMINED.get(task.entry.name, -1):
            continue
        try:
            compare(task, f"output {i}", result, truth, lambda i=i: in_float64(task)[i])
        except WrongError:
            if task.entry.name in AS_WHOLE and not truth.is_floating_point():
                compare(
                    task, f"output {i}", result.trunc().to(truth.dtype), truth, lambda t=truth: t
                )
                raise DiffersError(AS_WHOLE[task.entry.name]) from None
            marks = MARKS.get(task.entry.name)
            if task.reference is not None and task.entry.name in REFERENCES:
                raise DiffersError(REFERENCES[task.entry.name]) from None
            if marks is None:
                raise
            mark, row = marks
            kept = torch.where(mark(task.leaves[0], truth), truth, result)
            compare(task, f"output {i}", kept, truth, lambda i=i: in_float64(task)[i])
            raise DiffersError(row) from None


def _detached(leaf: Any) -> Any:
    return leaf.detach() if is_tensor(leaf) else leaf


def flat_tensors(results: Any) -> Tensors:
    """Convert results to PyTorch tensors; without tensor inputs, operators return arrays."""
    return [
        leaf if is_tensor(leaf) else _as_tensor(np.asarray(leaf))
        for leaf in tree_flatten(results)[0]
    ]


def _as_tensor(array: Any) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array)


def in_float64(task: Task) -> Tensors:
    """Return the PyTorch results for the same numbers in float64."""

    def widened(leaf: Any) -> Any:
        if is_tensor(leaf):
            return leaf.detach().double() if leaf.is_floating_point() else leaf.detach().clone()
        return torch.float64 if leaf is task.dtype else leaf

    results = task.expected([widened(leaf) for leaf in task.leaves])
    return [leaf for leaf in tree_flatten(results)[0] if is_tensor(leaf)]


def compare(
    task: Task,
    label: str,
    result: torch.Tensor,
    truth: torch.Tensor,
    exact: Callable[[], torch.Tensor],
) -> None:
    """Raise WrongError unless a result matches PyTorch in its dtype or in float64."""
    truth = truth.detach()
    if task.reference is not None:  # NumPy has its own dtypes
        result = result.to(truth.dtype)
    if (result.dtype, result.shape) != (truth.dtype, truth.shape):
        raise WrongError(
            f"{label}: {result.dtype} {list(result.shape)} instead of {truth.dtype} "
            f"{list(truth.shape)}"
        )
    rtol, atol = tolerance_of(task.entry, truth.dtype)
    try:
        torch.testing.assert_close(result, truth, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        if not _matches_float64(result, truth, exact, rtol, atol):
            raise WrongError(f"{label}: {' '.join(str(error).split())}") from None


def _matches_float64(
    result: torch.Tensor,
    truth: torch.Tensor,
    exact: Callable[[], torch.Tensor],
    rtol: float,
    atol: float,
) -> bool:
    """Return whether a result that differs from PyTorch's result matches the float64 result.

    A float32 error can be up to four times PyTorch's error, since rounding errors depend on the
    order of summation. Integers and float64 results are not accepted.
    """
    if not result.is_floating_point() or result.dtype == torch.float64:
        return False
    try:
        wanted = exact().detach().to(result.dtype)
    except RuntimeError:
        return False
    if result.dtype == torch.float32 and wanted.isfinite().all():
        theirs = float((truth - wanted).abs().max())
        atol = max(atol, 4 * theirs) if math.isfinite(theirs) else atol
    return bool(torch.allclose(result, wanted, rtol=rtol, atol=atol, equal_nan=True))


def check_gradients(task: Task, copies: list[Any], truths: Tensors) -> None:
    """Compare gradients with PyTorch, or with a formula where opwright differs intentionally."""
    name = task.entry.name
    try:
        compare_losses(task, copies, truths)
    except GradientError:
        if name not in WITHOUT_GRADIENT:
            raise
        raise DiffersError(WITHOUT_GRADIENT[name]) from None
    except WrongError:
        if name not in INSTEAD:
            raise
        formula, row = INSTEAD[name]
        given, args, kwargs = task.arguments(copies)
        compare_losses(task, copies, [formula(given, *args, **kwargs)])
        raise DiffersError(row) from None


def compare_losses(task: Task, copies: list[Any], truths: Tensors) -> None:
    """Compare the gradients of a loss that weights all float results randomly."""
    wanted = [leaf for leaf in copies if is_tensor(leaf) and leaf.requires_grad]
    places = [i for i, truth in enumerate(truths) if truth.requires_grad]
    if not wanted or not places:
        raise WrongError("no gradient to compare")
    generator = torch.Generator().manual_seed(7)
    weights = [
        torch.randn(truths[i].shape, dtype=torch.float64, generator=generator).to(truths[i].dtype)
        for i in places
    ]
    gradients = torch.autograd.grad(
        [truths[i] for i in places], wanted, weights, allow_unused=True, materialize_grads=True
    )
    try:
        compare_gradients(task, places, weights, gradients, range(len(wanted)))
    except (GradientError, WrongError) as error:
        moved = [i for i, gradient in enumerate(gradients) if gradient.any()]
        if isinstance(error, WrongError) or len(moved) == len(wanted):
            raise
        if moved:
            compare_gradients(task, places, weights, gradients, moved)
        raise DiffersError("gradient of `round`, `floor`, `ceil`") from None


def compare_gradients(
    task: Task,
    places: list[int],
    weights: Tensors,
    gradients: Sequence[torch.Tensor],
    wanted: Sequence[int],
) -> None:
    results = differentiate(task, places, weights, wanted)
    for i, result in zip(wanted, results, strict=True):
        compare(task, f"gradient {i}", result, gradients[i], lambda i=i: gradients[i])


def differentiate(
    task: Task, places: list[int], weights: Tensors, chosen: Sequence[int]
) -> Tensors:
    """Return the gradients of a program that the adapter builds, for some of its inputs."""
    feeds: dict[str, Any] = {}
    leaves, wanted = list(task.leaves), []
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        for i, leaf in enumerate(task.leaves):
            if not is_tensor(leaf) or not (leaf.requires_grad or leaf.numel() > MOST_CONSTANT):
                continue
            leaves[i] = _variable(block, f"x{i}", leaf, feeds, not leaf.requires_grad)
            if leaf.requires_grad:
                wanted.append(leaves[i])
        wanted = [wanted[i] for i in chosen]
        results = tree_flatten(task.ours(leaves))[0]
        targets = [results[place] for place in places]
        grads = {
            target: _variable(block, f"weight_{i}", weight, feeds, True)
            for i, (target, weight) in enumerate(zip(targets, weights))
        }
        pairs = ow.append_backward(targets, parameters=wanted, grads=grads)
        found = {variable.name: gradient for variable, gradient in pairs}
    fetch = [found[variable.name] for variable in wanted if variable.name in found]
    arrays = ow.Network(block).compile(feed=list(feeds), fetch=fetch)(**feeds) if fetch else []
    computed = {v.name: torch.as_tensor(np.array(a)) for v, a in zip(fetch, arrays)}
    return [
        computed[found[v.name].name] if v.name in found else torch.zeros(v.shape).double()
        for v in wanted
    ]


def _variable(block: Any, name: str, tensor: torch.Tensor, feeds: Any, is_constant: bool) -> Any:
    feeds[name] = tensor.detach().contiguous()
    dtype = str(tensor.dtype).rpartition(".")[2]
    return block.create_var(
        name, list(tensor.shape), dtype, is_data=True, stop_gradient=is_constant
    )
