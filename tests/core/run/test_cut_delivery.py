"""The halves of a cut network return results as requested and pass on intermediate values."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import FeedError


class Wrapped:
    """A result returned by an importer."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.asarray(array)

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.array


def halves(**options: object) -> tuple[ow.Scope, object]:
    block = ow.Program().global_block()
    x = block.create_var("x", [4, 8], is_data=True)
    weight = block.create_parameter("w", [3, 8])
    out = block.append_op("fc", {"x": x, "weight": weight}, {}, {"transpose_weight": True})
    y = block.var(block.append_op("sigmoid", {"x": out.output("out")[0]}).output("out")[0])
    dy = block.create_var("dy", y.shape, is_data=True)
    ((_, grad),) = ow.append_backward(y, grads={y: dy})
    scope = ow.Scope()
    scope.var("w").set(np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8))
    cut = ow.cut(block.program, ["x"], [y], {"dy": y}, [grad], scope=scope, **options)
    return scope, cut


X = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)
DY = np.ones((4, 3), np.float32)


def test_the_importer_converts_the_results_of_both_halves() -> None:
    _, plain = halves()
    _, cut = halves(fetch_as=Wrapped)
    (y,), backward = cut(X)
    (grad,) = backward(DY)
    assert type(y) is Wrapped
    assert type(grad) is Wrapped
    (expected,), differentiate = plain(X)
    np.testing.assert_array_equal(y.array, expected)
    np.testing.assert_array_equal(grad.array, differentiate(DY)[0])


def test_the_first_half_returns_where_each_argument_of_the_second_half_comes_from() -> None:
    _, cut = halves()
    *results, (second, sources) = cut.first(X)
    assert cut.n_early == 1
    handed = [X if source == "x" else results[source] for source in sources]
    (_, backward) = cut(X)
    np.testing.assert_array_equal(second(*handed, DY)[0], backward(DY)[0])


def test_varying_values_are_reread_by_both_halves() -> None:
    scope, cut = halves(varying=["w"])
    before = cut(X)[0][0]
    scope.var("w").set(np.zeros((3, 8), np.float32))
    (y,), backward = cut(X)
    assert not np.array_equal(before, y)
    np.testing.assert_array_equal(y, np.full((4, 3), 0.5, np.float32))
    np.testing.assert_allclose(backward(DY)[0], 0.25 * DY.T @ X, rtol=1e-5, atol=1e-6)


def test_an_importer_that_is_not_callable_raises() -> None:
    with pytest.raises(FeedError, match="fetch_as must be callable"):
        halves(fetch_as="torch")
