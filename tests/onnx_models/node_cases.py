"""The node cases of onnx, run by our backend and compared as onnx's own runner compares."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from typing import Any, Final

import numpy as np
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner, _normalize_tensor

from opwright_onnx.backend import OpwrightBackend

REFUSED: Final = {
    r"^test_(string_|strnormalizer|regex_full_match|equal_string|ai_onnx_ml_label_encoder)": (
        "its elements are strings"
    ),
    r"^test_image_decoder": "it decodes files of images",
    r"^test_tfidfvectorizer": "it counts n-grams of a vocabulary, which no operator of ours does",
    r"^test_ai_onnx_ml_tree_ensemble": "ensembles of trees have no operator",
    r"^test_bernoulli": "it is random: the expected numbers are those of NumPy's generator",
    r"^test_training_dropout(_default|_mask|_default_mask)?$": (
        "it is random: the expected numbers are those of NumPy's generator"
    ),
    r"^test_attention_4d_causal_fp16_expanded": (
        "its results in float16 round otherwise, by one unit"
    ),
}
"""Cases that do not pass, by a pattern of their names, and why."""


@lru_cache(maxsize=1)
def load_cases() -> dict[str, Any]:
    """Return the cases by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def find_reason(name: str) -> str | None:
    """Return why a case is refused, None for one that passes."""
    return next((why for pattern, why in REFUSED.items() if re.search(pattern, name)), None)


def run_case(case: Any) -> None:
    """Run a case; AssertionError where a result, a shape or a dtype differs."""
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
    """Return the tensors of one output: onnx's runner takes a scalar in a sequence for another."""
    return (ours, theirs) if isinstance(theirs, list) else ([ours], [theirs])
