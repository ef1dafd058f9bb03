"""Exports PyTorch models with both PyTorch exporters, and checks the opwright results.

``exported_models.py`` checks all models, and ``exported_models.py 'resnet*' bert`` only the named
models; ``--exporter old`` or ``new`` selects one exporter. Models have random weights. A model
passes if its result is as close to float64 as PyTorch's own result in float32, at the batch size of
its export and, if that is not fixed, at another size. The script needs torch, torchvision, timm,
transformers, onnx and onnxscript. If ONNX Runtime is installed, its results show which side causes
a difference.
"""

from __future__ import annotations

import argparse
import copy
import fnmatch
import io
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model_families import FAMILIES, Case

import opwright_onnx

FACTOR = 8.0
"""The permitted error as a multiple of that of PyTorch, since both round in different orders."""

FLOOR = 3e-6
"""The smallest limit, relative to the largest value, as PyTorch's error can be 0 by chance."""


class Flat(torch.nn.Module):
    """Wraps a model so that it takes positional tensors and returns a tuple of tensors."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the tensors in the result of the model."""
        return tuple(find_tensors(self.model(*inputs)))


def find_tensors(result: Any) -> list[torch.Tensor]:
    """Return the tensors of nested tuples, lists and mappings, in order."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, (tuple, list)):
        return [tensor for item in result for tensor in find_tensors(item)]
    return []


def randomize(model: torch.nn.Module) -> None:
    """Replace weights that are initialized to zeros or tiny scales with larger values."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.abs().max() < 1e-3:
                parameter.normal_(0.0, 0.1)
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0.0, 0.1)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)


def export(model: torch.nn.Module, inputs: Sequence[Any], path: Path, exporter: str) -> bool:
    """Write a model with a dynamic batch size; return False if only a fixed size was possible."""
    names = [f"x{i}" for i in range(len(inputs))]
    for is_open in (True, False):
        options: dict[str, Any] = {"input_names": names, "dynamo": exporter == "new"}
        if exporter == "new":
            batch = [{0: torch.export.Dim.DYNAMIC} for _ in inputs]
            options |= {"dynamic_shapes": {"inputs": tuple(batch)} if is_open else None}
            options |= {"verbose": False, "external_data": False}
        elif is_open:
            options["dynamic_axes"] = {name: {0: "batch"} for name in names}
        try:
            with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                torch.onnx.export(model, tuple(inputs), str(path), **options)
            return is_open
        except Exception:
            if not is_open:
                raise
    raise AssertionError


def compute(model: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> list[np.ndarray]:
    """Return PyTorch's results."""
    with torch.no_grad():
        return [tensor.detach().numpy() for tensor in model(*inputs)]


def compute_wide(model: torch.nn.Module, inputs: Sequence[Any]) -> list[np.ndarray] | None:
    """Return PyTorch's results in float64, or None for a model that requires float32."""
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    try:
        return compute(copy.deepcopy(model).double(), wide)
    except RuntimeError:
        return None


def find_error(results: Sequence[Any], expected: Sequence[Any]) -> float:
    """Return the largest difference of any output, relative to the largest value of that output."""
    if len(results) != len(expected):
        raise ValueError(f"{len(results)} outputs instead of {len(expected)}")
    errors = [0.0]
    for ours, theirs in zip(results, expected, strict=True):
        if ours.shape != theirs.shape:
            raise ValueError(f"shape {ours.shape} instead of {theirs.shape}")
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return float("inf")
        is_finite = np.isfinite(b)
        a, b = a[is_finite], b[is_finite]
        if b.size:
            errors.append(float(np.abs(a - b).max() / (np.abs(b).max() or 1.0)))
    return max(errors)


def run_peer(path: Path, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return ONNX Runtime's results."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    results: list[np.ndarray] = session.run(None, {name: inputs[name] for name in names})
    return results


def compare(program: Any, path: Path, model: torch.nn.Module, inputs: Sequence[Any]) -> str:
    """Return "" if our result is accurate; otherwise its error and the error of ONNX Runtime."""
    expected, wide = compute(model, inputs), compute_wide(model, inputs)
    reference = expected if wide is None else wide
    arrays = {f"x{i}": x.numpy() for i, x in enumerate(inputs)}
    own = find_error(expected, reference)
    allowed = max(FACTOR * own, 1e-4 if wide is None else FLOOR)

    def judge(run: Callable[[], Sequence[Any]]) -> str:
        try:
            error = find_error(run(), reference)
        except Exception as reason:  # noqa: BLE001 - of any library, and part of the report
            return f"{type(reason).__name__}: {reason}".strip().splitlines()[0][:300]
        return "" if error <= allowed else f"error {error:.1e}, PyTorch's own {own:.1e}"

    ours = judge(lambda: program({feed.name: arrays[feed.name] for feed in program.feeds}))
    if not ours:
        return ""
    peer = judge(lambda: run_peer(path, arrays))
    return f"{ours} (ONNX Runtime: {peer or 'right'})"


def try_model(name: str, case: Case, exporter: str, folder: Path) -> tuple[str, str]:
    """Export one model and run it; return the outcome and a comment."""
    torch.manual_seed(0)
    path = folder / f"{name}.{exporter}.onnx"
    began = time.monotonic()
    model = Flat(case.build().eval()).eval()
    randomize(model)
    inputs = case.make_inputs(2)
    try:
        is_open = export(model, inputs, path, exporter)
    except Exception as reason:  # noqa: BLE001 - as above
        return "not exported", f"{type(reason).__name__}: {str(reason).strip().splitlines()[:1]}"
    exported = time.monotonic()
    try:
        program = opwright_onnx.load(path)
    except Exception as reason:  # noqa: BLE001 - as above
        return "FAILS", f"load: {type(reason).__name__}: {reason}"
    problem = compare(program, path, model, inputs)
    if not problem and is_open:
        problem = compare(program, path, model, case.make_inputs(3))
        problem = problem and f"batch 3: {problem}"
    remark = problem or ("" if is_open else "batch size fixed by the exporter")
    seconds = f"{exported - began:.0f} + {time.monotonic() - exported:.0f} s"
    return "FAILS" if problem else "passes", f"{remark} {seconds}"


def main() -> int:
    """Check the models that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=["*"], help="names or patterns")
    parser.add_argument("--exporter", choices=("old", "new"), help="one of the two")
    parser.add_argument("--keep", type=Path, help="folder that keeps the files")
    args = parser.parse_args()
    torch.set_num_threads(1)
    chosen = {
        name: case
        for name, case in FAMILIES.items()
        if any(fnmatch.fnmatch(name, pattern) for pattern in args.models)
    }
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, case in chosen.items():
            for exporter in (args.exporter,) if args.exporter else ("old", "new"):
                folder = args.keep or Path(scratch)
                ending, remark = try_model(name, case, exporter, folder)
                failures += ending == "FAILS"
                print(f"{name:24} {exporter} {ending:12} {remark}", flush=True)
                if args.keep is None:
                    (folder / f"{name}.{exporter}.onnx").unlink(missing_ok=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
