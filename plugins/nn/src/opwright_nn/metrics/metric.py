"""Metric: a number that is accumulated batch by batch. Mean: the mean of any numbers."""

from __future__ import annotations

import abc
import math
from typing import Any

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import AttributeTypeError
from opwright_nn import arguments, checks

Source = ow.Variable | str | None
"""A variable whose values are collected, or its name; None if `update` is called manually."""


class Metric(abc.ABC):
    """A number about predictions that is accumulated batch by batch; `nn.train` accepts it.

    Arrays have any numeric dtype or bool. NaN is never a high or a low score: `Accuracy` counts a
    row with NaN as wrong, a mean and `R2` become NaN, and metrics that order or compare scores
    reject it.

    ``update`` adds the arrays of a batch, ``result`` returns the number for all batches since the
    last ``reset``. A metric is not part of a program, so plans do not change.

    Parameters
    ----------
    *variables : Variable or str
        Arguments of `update` in `nn.train`: variables that the model computes, and inputs. Direct
        callers of `update` need none.
    """

    def __init__(self, *variables: Source) -> None:
        for variable in variables:
            if not isinstance(variable, ow.Variable | str | None):
                raise AttributeTypeError(
                    f"{type(self).__name__}: variables must be variables or names of a model, got "
                    f"{variable!r} ({type(variable).__name__}); pass arrays to update"
                )
        self.variables = tuple(item for item in variables if item is not None)
        self.reset()

    @abc.abstractmethod
    def reset(self) -> None:
        """Forget all batches."""

    @abc.abstractmethod
    def update(self, *arrays: Any, **options: Any) -> None:
        """Add a batch: one array for each of `variables`."""

    @abc.abstractmethod
    def result(self) -> float:
        """Return the number for all batches since `reset`, or NaN if there were no batches."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.result():.6g})"

    @property
    def _who(self) -> str:
        return f"metrics.{type(self).__name__}"


class Mean(Metric):
    """The mean of a loss, or of any other number that is computed for each batch.

    Parameters
    ----------
    value : Variable or str, optional
        The variable that `nn.train` collects.
    """

    @arguments.suggest
    def __init__(self, value: Source = None) -> None:
        super().__init__(value)

    def reset(self) -> None:
        """Forget all batches."""
        self._sum, self._weight = 0.0, 0.0

    def update(self, value: npt.ArrayLike, weight: float = 1.0) -> None:
        """Add numbers: one for a batch, or one for each row.

        Parameters
        ----------
        value : array
            Numbers of any shape.
        weight : float, at least 0
            The weight of each value, such as the number of rows if the last batch is smaller.
        """
        factor = checks.check_float(self._who, "weight", weight, at_least=0.0)
        numbers = checks.check_numbers(self._who, "value", value).astype(np.float64)
        if factor:
            self._sum += factor * float(numbers.sum())
            self._weight += factor * numbers.size

    def result(self) -> float:
        """Return the mean of all numbers."""
        return self._sum / self._weight if self._weight else math.nan
