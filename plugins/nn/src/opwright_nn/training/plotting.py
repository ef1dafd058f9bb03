"""Plots a history with matplotlib, which is optional."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opwright.errors import AttributeValueError, MissingRequirementError
from opwright.plugin import hint, path_of

if TYPE_CHECKING:
    from opwright_nn.training.history import History

_SUFFIXES = (".png", ".svg")
_VALIDATION = "validation_"
_WIDTH_INCHES = 7.0
_PANEL_INCHES = 2.4


def plot(history: History, path: str | os.PathLike[str], columns: Sequence[str]) -> None:
    """Write a plot with a panel for each column and its validation; see `History.plot`."""
    file = Path(path_of("History.plot", path, "file"))
    if file.suffix.lower() not in _SUFFIXES:
        raise AttributeValueError(
            f"History.plot: path must end in .png or .svg, "
            f"got {os.fspath(path)!r}{hint(file.suffix, _SUFFIXES, 'endings')}"
        )
    figure_class = _load_figure()
    groups = _group(columns)
    figure = figure_class(
        figsize=(_WIDTH_INCHES, _PANEL_INCHES * max(len(groups), 1)), layout="constrained"
    )
    panels = figure.subplots(max(len(groups), 1), 1, sharex=True, squeeze=False)[:, 0]
    for panel, names in zip(panels, groups, strict=False):
        for name in names:
            panel.plot(history["epoch"], history[name], label=name, marker=".", markersize=4)
        panel.grid(alpha=0.3)
        panel.legend(frameon=False)
    panels[-1].set_xlabel("epoch")
    figure.savefig(file)


def _group(columns: Sequence[str]) -> list[list[str]]:
    """Group each column with its validation column."""
    groups: dict[str, list[str]] = {}
    for name in columns:
        groups.setdefault(name.removeprefix(_VALIDATION), []).append(name)
    return list(groups.values())


def _load_figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingRequirementError(
            "History.plot: matplotlib must be installed to draw, got "
            f"{error}; run: pip install matplotlib"
        ) from None
    return Figure  # without pyplot, which has windows and a global state
