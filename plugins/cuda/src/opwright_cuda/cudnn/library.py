"""cuDNN: where it is found, why it would refuse, and which of its engines it chooses."""

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
"""The way to cuDNN."""


class Engine(NamedTuple):
    """What cuDNN chose for a graph.

    Attributes
    ----------
    number : int
        Among its engines for graphs of this form.
    workspace_bytes : int
        What it wants.
    notes : int
        Bits by ``cudnnBackendNumericalNote``: 1 for tensor cores, 1 << 4 for results that vary.
    """

    number: int
    workspace_bytes: int
    notes: int


def choose_engine(graph: OperationGraph, properties: str, choice: EngineChoice) -> Engine:
    """Return what cuDNN would choose on a GPU, which need not be there.

    Parameters
    ----------
    graph : OperationGraph
        What shall be computed.
    properties : str
        The GPU as cuDNN writes it down, in JSON.
    choice : EngineChoice
        What the options say.

    Raises
    ------
    KernelError
        Where it has no engine, or cannot be used.
    """
    places = [8 * i for i, _ in enumerate(graph.pointers)]
    return Engine(*native.choose_engine(graph.record(places, choice), properties))


@cache
def find_refusal() -> str | None:
    """Return why nothing can be computed by cuDNN here, None where it can.

    The library is loaded by the first call in a process.
    """
    try:
        if native.find_cudnn_path() is None:
            tell_blas_path()  # cuDNN ends the process where it does not find it by itself
            native.set_cudnn_path(_find_library())
    except PluginError:
        return f"cuDNN needs cuBLASLt, which is not found; {INSTALL}"
    try:
        native.cudnn_version()
    except PluginError as error:
        return f"{error}; {INSTALL}"
    return None


def find_tf32_refusal(options: Mapping[str, Any]) -> str | None:
    """Return why nothing can be computed by cuDNN in TF32 here, None where it can."""
    if not options[ALLOW_TF32]:
        return f"float32 is not rounded to TF32; the option {ALLOW_TF32} allows it"
    return find_refusal()


def _find_library() -> str:
    """Return the library of the wheel, beside Python's packages, or the loader's own name."""
    try:
        spec = importlib.util.find_spec("nvidia.cudnn")
    except ModuleNotFoundError:  # no package is called nvidia
        spec = None
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "lib" / LIBRARY
        if path.exists():
            return str(path)
    return LIBRARY
