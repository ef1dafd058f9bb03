"""Creates feeds, random arrays of given shapes, for a saved program that a command runs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from opwright.describe.dtypes import Array, canonical_dtype, dtype_to_numpy
from opwright.describe.meta import shapes_match
from opwright.errors import CommandError
from opwright.messages.names import hint

if TYPE_CHECKING:
    from opwright.program import Variable
    from opwright.run.loaded import LoadedProgram

Arrays = dict[str, Array]
Shape = tuple[int, ...]

_FEED: Final = re.compile(r"(?:(.+)=)?(\(\)|(?:\d+|n)(?:[x,](?:\d+|n))*)(?::(\w+))?")


def add_feed_argument(parser: argparse.ArgumentParser, purpose: str = "") -> None:
    """Add ``--feed``, which `make_feeds` reads; `purpose` ends its help."""
    parser.add_argument(
        "--feed",
        metavar="NAME=SHAPE",
        action="append",
        default=[],
        help=f"feed random numbers of this shape, as in x=32x784{purpose}; repeatable",
    )


def read_feed(who: str, text: str) -> tuple[str | None, Shape, str | None]:
    """Parse name, shape and dtype from ``x=32x784``, ``x=()``, ``label=32x1:int64`` or ``32x784``.

    A dimension ``n``, the batch of a bundle, becomes -1. An omitted name or dtype becomes None.

    Raises
    ------
    CommandError, DtypeError
        For any other text, and for an unknown dtype.
    """
    match = _FEED.fullmatch(text)
    if match is None:
        raise CommandError(
            f"{who}: --feed must be NAME=SHAPE, got {text!r}; write x=32x784, 'x=()' for a "
            "scalar, label=32x1:int64 for another dtype"
        )
    name, dims, dtype = match.groups()
    shape = tuple(-1 if dim == "n" else int(dim) for dim in re.findall(r"\d+|n", dims))
    return name, shape, dtype and canonical_dtype(dtype)


def make_feeds(
    command: str,
    loaded: LoadedProgram,
    feed_texts: Sequence[str],
    given: Mapping[str, Any] = MappingProxyType({}),
) -> Arrays:
    """Return random feeds, the same in every call.

    Floating-point numbers are normal; integers are 0 or 1, which are valid for most indices.

    Parameters
    ----------
    command : str
        The command, which begins error messages.
    loaded : LoadedProgram
        The program to feed.
    feed_texts : sequence of str
        Shapes in the form of `read_feed`. Shapes of variables without unknown dimensions may be
        omitted, and so may the name if there is only one feed.
    given : mapping of str to array
        Arrays to feed instead of random arrays.

    Raises
    ------
    CommandError
        For a shape that is missing, malformed or mismatched, or does not belong to a feed.
    """
    names = [name for name in loaded.program_feeds if name not in given]
    variables = [loaded.program.global_block().vars[name] for name in names]
    shapes = {}
    for text in feed_texts:
        name, shape, dtype = read_feed(command, text)
        name = names[0] if name is None and len(names) == 1 else name
        if name not in names:
            near = hint(name or "", names, "feeds")
            raise CommandError(f"{command}: --feed must name a feed, got {name or text!r}{near}")
        variable = variables[names.index(name)]
        if dtype not in (None, variable.dtype):
            raise CommandError(
                f"{command}: the feed {name!r} is {variable.type_text}, got {text!r}; omit "
                "the dtype"
            )
        shapes[name] = shape
    random = np.random.default_rng(0)
    drawn = {v.name: _draw_numbers(v, _shape_of(command, v, shapes), random) for v in variables}
    return {**drawn, **given}


def results_of(loaded: LoadedProgram) -> list[str]:
    """Return the fetches of a program or, without fetches, the variables that no operator reads."""
    ops = loaded.program.global_block().ops
    read = {name for op in ops for name in op.input_names()}
    written = dict.fromkeys(name for op in ops for name in op.output_names())
    fetched = [fetch.name for fetch in loaded.fetches]
    return fetched or [name for name in written if name not in read]


def _shape_of(command: str, variable: Variable, shapes: dict[str, Shape]) -> Shape:
    known = variable.shape
    shape = shapes.get(variable.name, known)
    if shape is None or -1 in shape:
        example = "x".join("1" if dim < 0 else str(dim) for dim in shape or (1,))
        raise CommandError(
            f"{command}: the feed {variable.name!r} must have a shape, got {variable.type_text}; "
            f"add --feed {variable.name}={example}"
        )
    if known is not None and not shapes_match(shape, known):
        raise CommandError(
            f"{command}: the feed {variable.name!r} is {variable.type_text}, got {list(shape)}"
        )
    return shape


def _draw_numbers(variable: Variable, shape: Shape, random: np.random.Generator) -> Any:
    dtype = dtype_to_numpy(variable.dtype)
    if variable.dtype.startswith(("int", "uint", "bool")):
        return random.integers(0, 2, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)
