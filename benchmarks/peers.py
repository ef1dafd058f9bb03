"""Functions for peers: importing their packages, ONNX models, ONNX Runtime sessions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workload import PEERS_VARIABLE, NotAvailableError


def find_peers() -> None:
    """Make the peers importable after opwright's packages, so this process can use their arrays."""
    python = os.environ.get(PEERS_VARIABLE)
    if python is None:
        raise NotAvailableError(f"{PEERS_VARIABLE} does not name an interpreter with the peers")
    command = [python, "-c", "import site; print(*site.getsitepackages(), sep='\\n')"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    sys.path += printed.stdout.splitlines()


def make_model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[int]],
    outputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, np.ndarray],
    dtype: int,
) -> bytes:
    """Check an ONNX model and return it."""
    from onnx import checker, helper, numpy_helper

    graph = helper.make_graph(
        list(nodes),
        "benchmark",
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def open_session(model: bytes) -> Any:
    """Return an ONNX Runtime session on the CPU with its default settings."""
    import onnxruntime

    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
