"""Functions that the scripts in this folder share, for their arguments and their score."""

from __future__ import annotations

import argparse
import operator

import opwright_nn as nn


def read_arguments(
    doc: str | None, *, picture: str | None = None, **inputs: str
) -> argparse.Namespace:
    """Parse the arguments ``short`` and ``plot``, and the script's additional arguments.

    Parameters
    ----------
    doc : str or None
        The ``__doc__`` of the script, for ``--help``.
    picture : str, optional
        What ``--picture FILE`` draws.
    **inputs : str
        Other data that can be read; ``file="a text of your own"`` adds the argument ``--file
        PATH``.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="a run of seconds, to a lower score")
    parser.add_argument("--plot", metavar="FILE", help="draw the curve: a .png or .svg file")
    if picture is not None:
        parser.add_argument("--picture", metavar="FILE", help=f"draw {picture}")
    for name, what in inputs.items():
        parser.add_argument(f"--{name}", metavar="PATH", help=f"read {what}")
    return parser.parse_args()


def finish(
    arguments: argparse.Namespace,
    history: nn.History,
    name: str,
    value: float | None = None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> None:
    """Draw the curve with ``--plot``, print the score, and exit with 1 if it is insufficient.

    Parameters
    ----------
    arguments : argparse.Namespace
        The result of `read_arguments`.
    history : nn.History
        The curve to draw.
    name : str
        The name of the score.
    value : float, optional
        The value of the score; by default the last value of the history column `name`.
    at_least, at_most : float
        The required score; exactly one of them must be given.
    """
    if arguments.plot:
        history.plot(arguments.plot)
    value = history[name][-1] if value is None else value
    rules = [("at least", at_least, operator.ge), ("at most", at_most, operator.le)]
    for rule, wanted, reached in rules:
        if wanted is not None:
            print(f"{name}: {value:.4g}, wanted: {rule} {wanted:g}")
            if not reached(value, wanted):
                raise SystemExit(1)
