"""Compares a gradient with central differences of the loss in float64.

Differences are computed with two step sizes; if they disagree, there is a kink, and nothing is
compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from opwright_kit.testing.samples.sample import Array, element_name

Loss: TypeAlias = Callable[..., list[Array]]

_STEP: Final = 1e-5
_RTOL: Final = 1e-4


class Differences:
    """Central differences of a loss with respect to one of its feeds.

    Parameters
    ----------
    loss : callable
        A function of the feeds by name; returns a list of one number.
    feeds : mapping of str to ndarray
    name : str
        The feed that is moved.
    seed : int
        The seed of positions and directions.
    """

    def __init__(self, loss: Loss, feeds: Mapping[str, Array], name: str, seed: int) -> None:
        self._loss = loss
        self._feeds = feeds
        self._name = name
        self._slot = name.rpartition("_")[0]
        self._array = feeds[name]
        self._rng = np.random.default_rng(seed)

    def find_fault(self, gradient: Array, most: int) -> tuple[str | None, int]:
        """Compare a gradient at up to `most` elements and, if there are more, along all of them.

        Returns
        -------
        str or None
            The first fault.
        int
            The number of differences that were compared; differences at kinks are skipped.
        """
        places = list(np.ndindex(*self._array.shape))
        if len(places) > most:
            indices = self._rng.choice(len(places), most, replace=False)
            places = [places[i] for i in sorted(indices.tolist())]
        fault, n_compared = self._find_fault_at(gradient, places)
        if fault is not None or gradient.size <= most:
            return fault, n_compared
        return self._find_fault_along_all(gradient), n_compared + 1

    def _find_fault_at(
        self, gradient: Array, places: list[tuple[int, ...]]
    ) -> tuple[str | None, int]:
        derivatives = {}
        for place in places:
            derivative = self._along(self._one(place), abs(float(self._array[place])))
            if derivative is not None:
                derivatives[place] = derivative
        size = max([1.0, *map(abs, derivatives.values())])
        for place, derivative in derivatives.items():
            got = float(gradient[place])
            if not abs(got - derivative) <= _RTOL * size:
                return self._say(place, got, derivative), len(derivatives)
        return None, len(derivatives)

    def _find_fault_along_all(self, gradient: Array) -> str | None:
        """Return the fault found by changing all elements at once, or None if there is no fault.

        Bisects the elements until a single element shows the fault.
        """
        signs = self._rng.choice([-1.0, 1.0], self._array.shape).reshape(-1)
        where = np.arange(self._array.size)
        pair = self._compare(gradient, signs, where)
        if pair is None:
            return None
        while len(where) > 1:
            halves = np.array_split(where, 2)
            pairs = [self._compare(gradient, signs, half) for half in halves]
            half = next((i for i, each in enumerate(pairs) if each is not None), None)
            if half is None:  # neither half shows the fault alone
                break
            where, pair = halves[half], pairs[half] or pair
        if len(where) > 1:
            return self._say([], *pair, f" along {len(where)} elements")
        place = np.unravel_index(int(where[0]), self._array.shape)
        got, derivative = (float(signs[where[0]] * number) for number in pair)
        return self._say([int(i) for i in place], got, derivative)

    def _compare(self, gradient: Array, signs: Array, where: Array) -> tuple[float, float] | None:
        """Return the derivatives from the gradient and from differences, or None if they agree."""
        direction = np.zeros(self._array.size)
        direction[where] = signs[where]
        derivative = self._along(direction.reshape(self._array.shape), 1.0)
        if derivative is None:
            return None
        parts = gradient.reshape(-1)[where] * direction[where]
        got, size = float(np.sum(parts)), float(np.sqrt(np.sum(parts**2)))
        return None if abs(got - derivative) <= _RTOL * max(1.0, size) else (got, derivative)

    def _one(self, place: tuple[int, ...]) -> Array:
        direction = np.zeros(self._array.shape)
        direction[place] = 1.0
        return direction

    def _along(self, direction: Array, size: float) -> float | None:
        """Return the derivative along a direction, or None at a kink or if it is not finite."""
        step = _STEP * max(1.0, size)
        wide, narrow = (self._difference(direction, h) for h in (step, step / 2))
        if not np.isfinite(wide) or abs(wide - narrow) > 1e-4 * max(1.0, abs(narrow)):
            return None
        return narrow

    def _difference(self, direction: Array, step: float) -> float:
        losses = []
        for moved in (step, -step):
            array = self._array + moved * direction
            losses.append(float(self._loss(**{**self._feeds, self._name: array})[0]))
        return (losses[0] - losses[1]) / (2 * step)

    def _say(self, at: Sequence[int], got: float, derivative: float, along: str = "") -> str:
        return (
            f"the gradient of {element_name(self._slot, at)}{along} is {got:.9g}, central "
            f"differences give {derivative:.9g}; fix the gradient rule or its kernel"
        )
