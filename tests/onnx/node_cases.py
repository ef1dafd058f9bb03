"""The onnx node cases, run by our backend and compared as in the onnx test runner."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from onnx import ModelProto, OptionalProto, SequenceProto, TensorProto, ValueInfoProto, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner, _normalize_tensor

from opwright_onnx.backend import OpwrightBackend

REFUSED: Final = {
    r"^test_regex_full_match": "matching a pattern from an untrusted file may take years",
    r"^test_equal_string": "compares strings",
    r"^test_image_decoder": "decodes image files",
    r"^test_ai_onnx_ml_tree_ensemble": "opwright has no operator for tree ensembles",
    r"^test_bernoulli": "random: the expected numbers come from NumPy's generator",
    r"^test_training_dropout(_default|_mask|_default_mask)?$": (
        "random: the expected numbers come from NumPy's generator"
    ),
    r"^test_attention_4d_causal_fp16_expanded": (
        "float16 results are rounded differently, by one unit in the last place"
    ),
    r"^test_dft_(axis|inverse)(_opset19)?$": (
        "zeros are sums of numbers up to 1,000 in a different order: 5e-7, while 1e-7 is allowed"
    ),
}
"""Patterns for the names of cases that do not pass, and why."""


@lru_cache(maxsize=1)
def load_cases() -> dict[str, Any]:
    """Return the cases by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


_READERS: Final[dict[str, tuple[Any, Callable[[Any], Any]]]] = {
    "tensor_type": (TensorProto, numpy_helper.to_array),
    "sequence_type": (SequenceProto, numpy_helper.to_list),
    "optional_type": (OptionalProto, numpy_helper.to_optional),
}


def load_stored_cases(kind: str) -> dict[str, Any]:
    """Return the cases of one kind that onnx stores in files, by name."""
    return {case.name: _read_case(case) for case in load_model_tests(kind=kind)}


def _read_case(case: Any) -> Any:
    """Return a case with its model and its data."""
    folder = Path(case.model_dir)
    model = case.model or ModelProto.FromString((folder / "model.onnx").read_bytes())
    graph = model.graph
    sets = case.data_sets or [
        (_read_data(each, "input", graph.input), _read_data(each, "output", graph.output))
        for each in sorted(folder.glob("test_data_set_*"))
    ]
    return replace(case, model=model, data_sets=sets)


def _read_data(folder: Path, side: str, entries: list[ValueInfoProto]) -> list[Any]:
    found = []
    for i in range(len(list(folder.glob(f"{side}_*.pb")))):
        message, read = _READERS[entries[i].type.WhichOneof("value")]
        found.append(read(message.FromString((folder / f"{side}_{i}.pb").read_bytes())))
    return found


def find_reason(name: str) -> str | None:
    """Return why a case is refused, or None if it passes."""
    return next((why for pattern, why in REFUSED.items() if re.search(pattern, name)), None)


def run_case(case: Any) -> None:
    """Run a case; raise AssertionError if a value, a shape or a dtype differs."""
    prepared = OpwrightBackend.prepare(case.model, "CPU")
    for given, expected in case.data_sets:
        outputs = prepared.run([_normalize_tensor(item) for item in given])
        with np.errstate(all="ignore"):
            wanted = [_normalize_tensor(item) for item in expected]
            assert len(outputs) == len(wanted)
            for ours, theirs in map(_as_lists, outputs, wanted):
                Runner.assert_similar_outputs(
                    ref_outputs=theirs, outputs=ours, rtol=case.rtol, atol=case.atol
                )


def _as_lists(ours: Any, theirs: Any) -> tuple[Any, Any]:
    """Return one output as lists, because the onnx test runner confuses scalars in a sequence."""
    return (ours, theirs) if isinstance(theirs, list) else ([ours], [theirs])
