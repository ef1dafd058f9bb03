"""opwright inside JAX.

::

    import jax, opwright_jax

    jax.jit(jax.grad(lambda x: opwright_jax.ops.gelu(x).sum()))(x)
    forward = opwright_jax.function(opwright.load("model_dir"))  # (parameters, *inputs) -> results
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opwright_jax._version import __version__
from opwright_jax.plans import register

if TYPE_CHECKING:
    from opwright_jax import ops
    from opwright_jax.programs import function

__all__ = ["__version__", "function", "ops"]


def __getattr__(name: str) -> Any:
    if name == "ops":
        return import_module("opwright_jax.ops")
    if name == "function":
        return import_module("opwright_jax.programs").function
    raise AttributeError(f"module 'opwright_jax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


register()  # so that functions that JAX wrote to disk can be loaded
