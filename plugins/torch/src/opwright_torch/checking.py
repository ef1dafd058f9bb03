"""The rule ``torch`` of ``opwright check``: operators give the same results inside PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from opwright.errors import MissingRequirementError, OpwrightError

_TOLERANCE: Final = {"float16": 1e-2, "float32": 1e-5}
"""Relative and absolute tolerances, since a loss is summed in a different order."""

_OTHERS: Final = 1e-9


def check_operator(op_type: str, uses: Iterable[Any]) -> Iterator[tuple[Any, str]]:
    """Yield sample calls that fail eagerly, in ``opcheck``, gradients, or ``torch.compile``.

    Parameters
    ----------
    op_type : str
    uses : iterable
        Sample calls of the kit, with ``arguments``, ``results``, ``places``, ``weights`` and
        ``gradients``, and ``call(ops, arguments)``.

    Raises
    ------
    MissingRequirementError
        If PyTorch is not installed.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise MissingRequirementError(
            "torch: PyTorch must be installed, got no module 'torch'; pip install torch"
        ) from error
    doors = [("eagerly", _call), ("in torch.compile", _compile)]
    for number, use in enumerate(uses):
        for door, run in doors:
            try:
                fault = _compare(torch, use, run)
            except Exception as error:  # noqa: BLE001 - an error in a third-party rule is reported
                fault = f"{type(error).__name__}: {_first_line(error)}"
            if fault is not None:
                yield use, f"inside PyTorch the operator must compute the same {door}, got {fault}"
                break
        else:
            fault = None if number else _opcheck(torch, use)
            if fault is not None:
                yield use, f"torch.library.opcheck must pass, got {fault}"


def _call(torch: Any, use: Any) -> Any:
    from opwright_torch import ops

    return lambda *tensors: use.call(ops, tensors)


def _compile(torch: Any, use: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(_call(torch, use), backend="aot_eager", fullgraph=True)


def _compare(torch: Any, use: Any, run: Any) -> str | None:
    """Describe how results or gradients differ from opwright's."""
    tensors = [torch.from_numpy(np.array(array)) for array in use.arguments]
    for place in use.places:
        tensors[place].requires_grad_()
    results = run(torch, use)(*tensors)
    fault = _find_difference("result", results, use.results)
    if fault is not None or not use.places:
        return fault
    loss = sum(
        (result * torch.from_numpy(weight)).sum()
        for result, weight in zip(results, use.weights, strict=True)
        if weight is not None
    )
    wanted = [tensors[place] for place in use.places]
    gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
    filled = [torch.zeros_like(w) if g is None else g for g, w in zip(gradients, wanted)]
    return _find_difference("gradient", filled, use.gradients)


def _find_difference(what: str, found: Any, expected: Any) -> str | None:
    for i, (tensor, array) in enumerate(zip(found, expected, strict=True)):
        given = tensor.detach().numpy()
        if (given.shape, given.dtype) != (array.shape, array.dtype):
            return f"{what} {i} of {given.dtype} {given.shape}, not {array.dtype} {array.shape}"
        near = _TOLERANCE.get(str(array.dtype), _OTHERS) if array.dtype.kind == "f" else 0.0
        if not np.allclose(given, array, rtol=near, atol=near, equal_nan=True):
            return f"{what} {i} that differs by {np.nanmax(abs(given - array)):.3g}"
    return None


def _opcheck(torch: Any, use: Any) -> str | None:
    """Return the problems that PyTorch's own checks report for an operator."""
    from opwright_torch.ops.library import find_overloads

    arguments = []
    items = iter(enumerate(use.arguments))
    for slot in use.definition.proto.inputs:
        given = []
        for _ in use.sample.inputs.get(slot.name, ()):
            place, array = next(items)
            tensor = torch.from_numpy(np.nan_to_num(array))  # opcheck compares NaN with itself
            given.append(tensor.requires_grad_(place in use.places))
        if slot.duplicable:
            arguments.append(given if given or not slot.optional else None)
        else:
            arguments.append(given[0] if given else None)
    attrs = {n: list(v) if isinstance(v, tuple) else v for n, v in use.sample.attrs.items()}
    attrs = {name: value for name, value in attrs.items() if value is not None}
    try:
        torch.library.opcheck(find_overloads(use.definition).main, tuple(arguments), attrs)
    except OpwrightError as error:
        return _first_line(error)
    except Exception as error:  # noqa: BLE001 - opcheck raises its findings
        return f"{type(error).__name__}: {_first_line(error)}"
    return None


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
