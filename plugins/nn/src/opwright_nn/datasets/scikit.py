"""The tables that scikit-learn ships: diabetes, wine, breast cancer and iris.

scikit-learn is optional, and only needed here; it reads them from its own files, without a network.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from opwright.errors import MissingRequirementError
from opwright_nn import arguments, checks
from opwright_nn.datasets.table import Table

__all__ = ["load"]

NAMES = ("breast_cancer", "diabetes", "iris", "wine")
"""The data sets."""


@arguments.suggest
def load(
    name: str, seed: int = 1, test_fraction: float = 0.2, standardize: bool = True
) -> tuple[Table, Table]:
    """Return a table, shuffled and split: ``train, test = load("wine")``.

    Parameters
    ----------
    name : str
        ``"diabetes"`` (442 rows, 10 columns, a number to predict), ``"wine"`` (178 rows, 13
        columns, 3 classes), ``"breast_cancer"`` (569 rows, 30 columns, 2 classes) or ``"iris"``
        (150 rows, 4 columns, 3 classes).
    seed : int, at least 0
        The seed of the split.
    test_fraction : float in (0, 1)
        The fraction of rows in the test set; their number is rounded up.
    standardize : bool
        True gives each column mean 0 and standard deviation 1, both computed only from the training
        set and used for both sets; targets stay unchanged.

    Returns
    -------
    (Table, Table)
        The training set and the test set. Features are float32 [n, columns]; targets [n, 1], int64
        for classes and float32 for diabetes.

    Raises
    ------
    AttributeTypeError, AttributeValueError
        An argument is wrong.
    MissingRequirementError
        scikit-learn is not installed.
    """
    checks.check_choice("scikit.load", "name", name, NAMES)
    seed = checks.check_int("scikit.load", "seed", seed, at_least=0)
    checks.check_float("scikit.load", "test_fraction", test_fraction, above=0.0, below=1.0)
    standardize = checks.check_bool("scikit.load", "standardize", standardize)
    bunch = getattr(_load_sklearn(), f"load_{name}")()
    features = np.asarray(bunch.data, np.float64)
    classes = [str(label) for label in getattr(bunch, "target_names", ())]
    targets = np.asarray(bunch.target).reshape(-1, 1).astype(np.int64 if classes else np.float32)
    n_test = min(math.ceil(len(features) * test_fraction), len(features) - 1)
    order = np.random.default_rng(seed).permutation(len(features))
    train, test = order[n_test:], order[:n_test]
    if standardize:
        features = _standardize(features, features[train])
    columns = [str(column) for column in bunch.feature_names]
    single = features.astype(np.float32)
    return (
        Table(single[train], targets[train], columns, classes),
        Table(single[test], targets[test], columns, classes),
    )


def _standardize(
    features: npt.NDArray[np.float64], train: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    deviation = train.std(axis=0)
    deviation[deviation == 0] = 1
    return np.asarray((features - train.mean(axis=0)) / deviation, np.float64)


def _load_sklearn() -> Any:
    try:
        import sklearn.datasets
    except ImportError as error:
        raise MissingRequirementError(
            f"scikit.load: scikit-learn, which contains the data, must be installed, got {error}; "
            "run: pip install scikit-learn"
        ) from None
    return sklearn.datasets
