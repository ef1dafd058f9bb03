"""Initializers: the values of a parameter before the first step, like `torch.nn.init`.

Each initializer appends one operator to the startup program. Random initializers use the startup
program's seed and a stream that is chosen when the layer is created, so the initial value of a
parameter depends neither on the rest of the program nor on when its shape became known.
"""

from __future__ import annotations

import abc
import math
import sys
from typing import TYPE_CHECKING, Any, Final

import opwright as ow
from opwright.errors import AttributeValueError
from opwright_nn import arguments, checks
from opwright_nn.foreign_names import INITIALIZERS, answering

__all__ = ["Constant", "Initializer", "Kaiming", "Normal", "Uniform", "Xavier"]

if not TYPE_CHECKING:  # type checkers should report an unknown name
    __getattr__, __dir__ = answering(__name__, __all__, INITIALIZERS)

_LIMITS: Final = {
    "float16": 65504.0,
    "bfloat16": float(2**128 - 2**120),
    "float32": checks.MAX_FLOAT32,
}
_MAX_DEVIATIONS: Final = 10
"""An upper bound on the absolute value of normal numbers from 64 random bits, for std 1."""


class Initializer(abc.ABC):
    """Initializes a parameter; a subclass names the operator type and its attributes."""

    random = False
    """Whether the operator draws random numbers, so it has a seed, a stream and a step."""

    @abc.abstractmethod
    def describe(self, shape: tuple[int, ...]) -> tuple[str, dict[str, Any]]:
        """Return the operator type and the attributes beyond ``shape`` and ``dtype``."""

    def append(self, block: ow.Block, variable: ow.Variable, stream: int) -> None:
        """Append the operator that writes `variable` to `block`.

        Parameters
        ----------
        block : Block
            The global block of a startup program.
        variable : Variable
            A variable of the block, with a known shape.
        stream : int, at least 0
            The stream of random numbers, from `Program.next_stream`.

        Raises
        ------
        AttributeValueError
            The dtype of the variable is not a float, and cannot represent the drawn numbers.
        """
        shape = variable.shape or ()
        op_type, attrs = self.describe(shape)
        self._check_range(attrs, variable)
        attrs |= {"shape": list(shape), "dtype": variable.dtype}
        inputs: dict[str, Any] = {}
        if self.random:
            # The operator has no step input, since each run of the startup program must compute the
            # same values.
            inputs["step"] = None
            attrs["stream"] = stream
        block.append_op(op_type, inputs=inputs, outputs={"out": variable}, attrs=attrs)

    def _check_range(self, attrs: dict[str, Any], variable: ow.Variable) -> None:
        """Raise if an element, or a difference that the operator computes, would overflow."""
        value, mean, std = (attrs.get(name, 0.0) for name in ("value", "mean", "std"))
        low, high = attrs.get("min", 0.0), attrs.get("max", 0.0)
        greatest = max(abs(value), abs(mean) + _MAX_DEVIATIONS * std, -low, high, high - low)
        if greatest > _LIMITS.get(str(variable.dtype), sys.float_info.max):
            raise AttributeValueError(
                f"{self}: numbers and their differences must be within the range of "
                f"{variable.dtype}, got up to {greatest:g} for {variable.name!r}; use smaller ones"
            )

    def __repr__(self) -> str:
        values = ", ".join(f"{name.lstrip('_')}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


class Constant(Initializer):
    """Every element is `value`."""

    @arguments.suggest
    def __init__(self, value: float = 0.0) -> None:
        self._value = checks.check_float("Constant", "value", value)

    def describe(self, shape: tuple[int, ...]) -> tuple[str, dict[str, Any]]:
        """Return ``fill``."""
        return "fill", {"value": self._value}


class Uniform(Initializer):
    """Uniform in [min, max).

    Parameters
    ----------
    min, max : float, min < max
        The interval.
    seed : int
        0 uses the seed of the startup program.
    """

    random = True

    @arguments.suggest
    def __init__(self, min: float = -1.0, max: float = 1.0, seed: int = 0) -> None:
        self._min = checks.check_float("Uniform", "min", min)
        self._max = checks.check_float("Uniform", "max", max, above=self._min)
        self._seed = checks.check_int("Uniform", "seed", seed, at_least=0)

    def describe(self, shape: tuple[int, ...]) -> tuple[str, dict[str, Any]]:
        """Return ``uniform``."""
        return "uniform", {"min": self._min, "max": self._max, "seed": self._seed}


class Normal(Initializer):
    """Normal with `mean` and standard deviation `std`.

    Parameters
    ----------
    mean : float
        The center.
    std : float, at least 0
        The standard deviation.
    seed : int
        0 uses the seed of the startup program.
    """

    random = True

    @arguments.suggest
    def __init__(self, mean: float = 0.0, std: float = 1.0, seed: int = 0) -> None:
        self._mean = checks.check_float("Normal", "mean", mean)
        self._std = checks.check_float("Normal", "std", std, at_least=0.0)
        self._seed = checks.check_int("Normal", "seed", seed, at_least=0)

    def describe(self, shape: tuple[int, ...]) -> tuple[str, dict[str, Any]]:
        """Return ``normal``."""
        return "normal", {"mean": self._mean, "std": self._std, "seed": self._seed}


class _Scaled(Initializer):
    # Uniform or normal, with zero mean and a standard deviation that depends on the shape.

    random = True

    def __init__(self, uniform: bool, seed: int) -> None:
        who = type(self).__name__
        self._uniform = checks.check_bool(who, "uniform", uniform)
        self._seed = checks.check_int(who, "seed", seed, at_least=0)

    @abc.abstractmethod
    def std(self, shape: tuple[int, ...]) -> float:
        """Return the standard deviation for a parameter of this shape."""

    def describe(self, shape: tuple[int, ...]) -> tuple[str, dict[str, Any]]:
        """Return ``uniform`` or ``normal``."""
        std = self.std(shape)
        if not self._uniform:
            return "normal", {"mean": 0.0, "std": std, "seed": self._seed}
        limit = math.sqrt(3.0) * std
        return "uniform", {"min": -limit, "max": limit, "seed": self._seed}


class Xavier(_Scaled):
    """Zero mean, standard deviation ``gain * sqrt(2 / (fan_in + fan_out))``.

    Keeps the variance of activations and gradients for activations near the origin. `gain` is the
    inverse of the activation's derivative at the origin: 1 for tanh or without an activation, 4 for
    sigmoid. Glorot and Bengio, Understanding the difficulty of training deep feedforward neural
    networks, 2010, section 4.2.

    Parameters
    ----------
    gain : float, > 0
        A factor on the standard deviation.
    uniform : bool
        Uniform in ``[-sqrt(3) std, sqrt(3) std)``, otherwise normal.
    seed : int
        0 uses the seed of the startup program.
    """

    @arguments.suggest
    def __init__(self, gain: float = 1.0, uniform: bool = True, seed: int = 0) -> None:
        super().__init__(uniform, seed)
        self._gain = checks.check_float("Xavier", "gain", gain, above=0.0)

    def std(self, shape: tuple[int, ...]) -> float:
        """Return the standard deviation for a parameter of this shape."""
        fan_in, fan_out = fans(shape)
        return self._gain * math.sqrt(2.0 / max(fan_in + fan_out, 1))


class Kaiming(_Scaled):
    """Zero mean, standard deviation ``sqrt(2 / ((1 + negative_slope^2) fan_in))``.

    Keeps the variance of activations after relu and leaky_relu. He et al., Delving Deep into
    Rectifiers, 2015, section 2.2.

    Parameters
    ----------
    negative_slope : float
        The slope of the activation below zero; 0 for relu.
    uniform : bool
        Uniform in ``[-sqrt(3) std, sqrt(3) std)``, otherwise normal.
    seed : int
        0 uses the seed of the startup program.
    """

    @arguments.suggest
    def __init__(self, negative_slope: float = 0.0, uniform: bool = True, seed: int = 0) -> None:
        super().__init__(uniform, seed)
        self._negative_slope = checks.check_float("Kaiming", "negative_slope", negative_slope)

    def std(self, shape: tuple[int, ...]) -> float:
        """Return the standard deviation for a parameter of this shape."""
        # The slope is not squared, as the square might overflow.
        gain = math.sqrt(2.0) / math.hypot(1.0, self._negative_slope)
        return gain / math.sqrt(max(fans(shape)[0], 1))


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the fan-in and the fan-out of a weight of this shape.

    ``[in, out]`` is a fully connected layer's weight, ``[out, in, kernel…]`` a convolution's (with
    groups, `in` counts one group, `out` all groups); with one axis, both are its length; without
    axes, both are 1.
    """
    if len(shape) < 2:
        size = math.prod(shape)
        return size, size
    if len(shape) == 2:
        return shape[0], shape[1]
    kernel = math.prod(shape[2:])
    return shape[1] * kernel, shape[0] * kernel
