"""Models from ONNX files: loading, and inference of one example with one and two threads."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from networks.exported import NAMES
from workload import PEERS_VARIABLE, Goal, Timed, Workload
from workloads.load import ONNXRUNTIME, time_loading

LOADED = ("mlp", "encoder", "decoder_step", "lstm_both_ways", "zoo_shufflenet", "zoo_squeezenet")
LOADED += ("mobilenet_v2", "efficientnet_b0", "densenet121", "resnet18", "resnet50")
"""The files of at least about 5 MB."""

SAVED = """
import opwright
result = opwright.load(sys.argv[1])(dict(feed))[0]
"""

OPWRIGHT = """
sys.path += {paths!r}
import opwright_onnx
program = opwright_onnx.load(sys.argv[1])
result = program(dict(feed))[0]
"""


def write(name: str, folder: Path) -> Path:
    """Write a model with an interpreter that has PyTorch; return its file."""
    path = folder / f"{name}.onnx"
    python = os.environ.get(PEERS_VARIABLE, sys.executable)
    script = Path(__file__).parents[1] / "networks" / "exported.py"
    subprocess.run([python, str(script), name, str(path)], check=True, capture_output=True)
    return path


def make_feeds(path: Path) -> dict[str, np.ndarray]:
    """Return an array for each input of a model."""
    import onnx

    graph = onnx.load(path).graph
    rng, feeds = np.random.default_rng(28), {}
    initialized = {tensor.name for tensor in graph.initializer}
    for entry in graph.input:
        if entry.name in initialized:
            continue
        kind = entry.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        is_float = kind.elem_type == onnx.TensorProto.FLOAT
        feeds[entry.name] = (
            rng.standard_normal(shape, dtype="float32") if is_float else rng.integers(0, 90, shape)
        )
    return feeds


def timed(call: Any) -> Timed:
    """Return a call and its first result."""
    return Timed(lambda: call()[0], values=np.asarray(call()[0]).ravel().tolist())


def opwright(name: str, threads: int) -> Timed:
    """Prepare the model loaded by opwright-onnx, with NumPy inputs and outputs."""
    import opwright as ow
    from peers import find_peers

    find_peers()
    import opwright_onnx

    ow.set_num_threads(threads)
    with tempfile.TemporaryDirectory(prefix="opwright-bench-") as folder:
        path = write(name, Path(folder))
        program, feeds = opwright_onnx.load(path), make_feeds(path)
    return timed(lambda: program(feeds))


def onnxruntime(name: str, threads: int) -> Timed:
    """Prepare an ONNX Runtime session."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory(prefix="opwright-bench-") as folder:
        path = write(name, Path(folder))
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        feeds = make_feeds(path)
    return timed(lambda: session.run(None, feeds))


def load(name: str, code: str, *, keep: bool = True) -> Timed:
    """Return the time from a file to its first result, including all imports except NumPy's."""
    from peers import find_peers

    known = len(sys.path)
    if PEERS_VARIABLE in os.environ:
        find_peers()
    folder = tempfile.TemporaryDirectory(prefix="opwright-bench-")
    path = write(name, Path(folder.name))
    feeds = make_feeds(path)
    with open(Path(folder.name) / "feed.npy", "wb") as file:
        np.savez(file, **feeds)
    if code == SAVED:
        import opwright_onnx

        opwright_onnx.load(path).save(path := Path(folder.name) / "saved")
    code = code.replace("{paths!r}", repr(sys.path[known:]))
    return time_loading(code, folder, path, keep=keep)


WORKLOADS = [
    Workload(
        f"onnx-{name}-{threads}",
        f"inference of the ONNX file {name}, one example, {threads} threads",
        "ms",
        {
            "opwright": partial(opwright, name, threads),
            "onnxruntime": partial(onnxruntime, name, threads),
        },
        {"opwright": [Goal(ratio=1.0, of="onnxruntime")]},
        tolerance=1e-3,
    )
    for name in NAMES
    for threads in (1, 2)
] + [
    Workload(
        f"onnx-load-{name}",
        f"from the ONNX file {name} to its first result, beyond NumPy's import",
        "ms",
        {
            "opwright": partial(load, name, OPWRIGHT),
            "opwright-saved": partial(load, name, SAVED),
            "opwright-first": partial(load, name, OPWRIGHT, keep=False),
            "onnxruntime": partial(load, name, ONNXRUNTIME.replace('{"x": feed}', "dict(feed)")),
        },
        {
            "opwright": [Goal(ratio=1.0, of="onnxruntime")],
            "opwright-saved": [Goal(ratio=1.0, of="onnxruntime")],
            "opwright-first": [Goal(ratio=1.5, of="onnxruntime")],
        },
        tolerance=1e-3,
    )
    for name in LOADED
]
