"""The real cuDNN accepts the opwright graphs for A100, H100 and B200, even without a GPU.

The tests need the wheels of cuDNN and cuBLAS (one gigabyte), which are not installed in CI: ``pip
install "opwright-cuda[cudnn]"``.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cudnn_engines import AWKWARD, DTYPES, FORMATS, GPUS, LENET, MISSING, RESNET18

TENSOR_CORES, DOWN, LOW, VARIES = 1 << 0, 1 << 1, 1 << 2, 1 << 4
GRAPHS = 4

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    if importlib.util.find_spec("nvidia") is None or not importlib.util.find_spec("nvidia.cudnn"):
        pytest.skip('cuDNN is not installed: pip install "opwright-cuda[cudnn]"')
    script = Path(__file__).with_name("cudnn_engines.py")
    command = [sys.executable, str(script), str(tmp_path_factory.mktemp("driver"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == MISSING:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    print("cuDNN", said["version"])
    listed: list[dict[str, Any]] = said["answers"]
    n_layers = len(LENET) + len(RESNET18) + len(AWKWARD)
    assert len(listed) == len(GPUS) * len(FORMATS) * (len(DTYPES) + 1) * n_layers * GRAPHS
    return listed


def test_every_convolution_has_an_engine_on_every_gpu(answers: list[dict[str, Any]]) -> None:
    assert [answer for answer in answers if "refused" in answer] == []


def test_chosen_engines_are_deterministic_and_preserve_precision(
    answers: list[dict[str, Any]],
) -> None:
    assert [answer for answer in answers if answer["notes"] & (DOWN | LOW | VARIES)] == []


def test_float32_convolutions_use_tensor_cores_only_with_tf32(
    answers: list[dict[str, Any]],
) -> None:
    for gpu in GPUS:
        single = [a for a in answers if (a["gpu"], a["dtype"]) == (gpu, "float32")]
        assert not any(a["notes"] & TENSOR_CORES for a in single if not a["tf32"])
        assert any(a["notes"] & TENSOR_CORES for a in single if a["tf32"])


def test_half_precision_convolutions_of_resnet_use_tensor_cores_with_few_exceptions(
    answers: list[dict[str, Any]],
) -> None:
    wide = [
        answer
        for answer in answers
        if answer["dtype"] != "float32"
        and answer["network"] == "resnet18"
        and answer["layer"][0] >= 64
        and answer["format"] == "NHWC"
    ]
    # The heuristics of 9.12 prefer an engine without tensor cores for one strided convolution.
    without = [answer for answer in wide if not answer["notes"] & TENSOR_CORES]
    assert 20 * len(without) < len(wide), without
