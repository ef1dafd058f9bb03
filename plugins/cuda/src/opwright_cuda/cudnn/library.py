"""Finds cuDNN, checks whether it can be used, and queries which engines it chooses."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from opwright.errors import PluginError
from opwright_cuda import native
from opwright_cuda.cudnn.graph import OperationGraph
from opwright_cuda.options import ALLOW_TF32, EngineChoice
from opwright_cuda.products import tell_blas_path

LIBRARY: Final = "libcudnn.so.9"
INSTALL: Final = 'pip install "opwright-cuda[cudnn]"'
"""How to install cuDNN."""


class Engine(NamedTuple):
    """The engine that cuDNN chose for a graph.

    Attributes
    ----------
    number : int
        Index among its engines for graphs of this form.
    workspace_bytes : int
        Its workspace.
    notes : int
        Bits by ``cudnnBackendNumericalNote``: 1 for tensor cores, 1 << 4 for nondeterministic
        results.
    """

    number: int
    workspace_bytes: int
    notes: int


def choose_engine(graph: OperationGraph, properties: str, choice: EngineChoice) -> Engine:
    """Return the engine that cuDNN chooses for a GPU, which need not be present.

    Parameters
    ----------
    graph : OperationGraph
        The graph to compute.
    properties : str
        The GPU as cuDNN serializes it, in JSON.
    choice : EngineChoice
        Settings from the options.

    Raises
    ------
    KernelError
        If it has no engine, or cannot be used.
    """
    places = [8 * i for i, _ in enumerate(graph.pointers)]
    return Engine(*native.choose_engine(graph.record(places, choice), properties))


@cache
def find_refusal() -> str | None:
    """Return the reason why cuDNN cannot be used, or None if it can.

    The first call in a process loads the library.
    """
    try:
        if native.find_cudnn_path() is None:
            tell_blas_path()  # cuDNN aborts the process if it does not find cuBLAS
            native.set_cudnn_path(_find_library())
    except PluginError:
        return f"cuDNN needs cuBLASLt, which is not found; {INSTALL}"
    try:
        native.cudnn_version()
    except PluginError as error:
        return f"{error}; {INSTALL}"
    return None


def find_tf32_refusal(options: Mapping[str, Any]) -> str | None:
    """Return the reason why cuDNN cannot be used in TF32, or None if it can."""
    if not options[ALLOW_TF32]:
        return f"float32 is not rounded to TF32; the option {ALLOW_TF32} allows it"
    return find_refusal()


def _find_library() -> str:
    """Return the library path in the wheel, or the name for the loader."""
    try:
        spec = importlib.util.find_spec("nvidia.cudnn")
    except ModuleNotFoundError:  # there is no package named nvidia
        spec = None
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "lib" / LIBRARY
        if path.exists():
            return str(path)
    return LIBRARY
