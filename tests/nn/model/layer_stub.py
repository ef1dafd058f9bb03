"""The stub of Model's layer methods, which type checkers and editors read.

``python tests/nn/model/layer_stub.py`` writes it; test_layer_methods.py checks that it is current.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

from opwright_nn.model import layer_methods
from opwright_nn.model.layer_methods import METHOD_NAMES, LayerMethods

STUB = Path(layer_methods.__file__).with_suffix(".pyi")

HEADER = '''"""Written by tests/nn/model/layer_stub.py from the layer functions."""

from collections.abc import Callable, Iterable, Sequence

import opwright as ow
from opwright_nn.layers.cond import Result
from opwright_nn.layers.loops import Carry, Variables
from opwright_nn.model.programs import Input, ModelPrograms
from opwright_nn.parallel import DataParallel
from opwright_nn.parameters.param_attr import ParamLike

METHOD_NAMES: dict[str, str]

class LayerMethods(ModelPrograms):
'''


def render() -> str:
    """Return the stub, as ruff lays it out."""
    methods = [method_text(method) for method in METHOD_NAMES.values()]
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(STUB), "-"]
    text = HEADER + "".join(methods)
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def method_text(name: str) -> str:
    """Return the definition of a method: its parameters, and the beginning of its docstring."""
    method = getattr(LayerMethods, name)
    signature = inspect.signature(method)
    parameters = [parameter_text(parameter) for parameter in signature.parameters.values()]
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    summary = textwrap.indent("\n\n".join(method.__doc__.split("\n\n")[:2]), " " * 8)
    return (
        f"    def {name}({', '.join(parameters)}) -> {signature.return_annotation}:\n"
        f'        """{summary.strip()}\n        """\n'
    )


def parameter_text(parameter: inspect.Parameter) -> str:
    """Return a parameter as it is written in a definition."""
    empty = inspect.Parameter.empty
    annotation = "" if parameter.annotation is empty else f": {parameter.annotation}"
    default = "" if parameter.default is empty else f" = {parameter.default!r}"
    return f"{parameter.name}{annotation}{default}"


if __name__ == "__main__":
    STUB.write_text(render())
