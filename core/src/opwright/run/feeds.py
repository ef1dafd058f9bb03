"""Describes the feeds of a network, and checks the names, dtypes and shapes of a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from opwright.context.context import current_context
from opwright.describe.meta import Meta, shapes_match
from opwright.describe.shape_rules import advise_shape
from opwright.device.intake import borrow_host, find_place, is_array, meta_of
from opwright.errors import DeviceNotFoundError, DtypeError, FeedError
from opwright.messages.names import hint
from opwright.program import Variable
from opwright.records import NamedTuple


class FeedSpec(NamedTuple):
    """The variable of a feed; None allows any ``shape`` or ``dtype``, and -1 any size of a dim.

    Messages begin with ``who``, the function that received the feed, except for networks.
    """

    name: str
    shape: tuple[int, ...] | None
    dtype: str | None
    who: str = ""

    @property
    def label(self) -> str:
        """The prefix of messages."""
        return f"{self.who}: {self.name!r}" if self.who else f"feed {self.name!r}"


def check_feed_names(given: Iterable[str], expected: Sequence[str], n_positional: int = 0) -> None:
    """Raise FeedError for the first unknown, missing or repeated feed.

    The first `n_positional` expected feeds are given by position.
    """
    if n_positional > len(expected):
        raise FeedError(
            f"feed: this network takes {_quote_names(expected)}, got {n_positional} values by "
            "position; pass one for each, in this order, or by name"
        )
    names = list(given)
    for name in expected[:n_positional]:
        if name in names:
            raise FeedError(f"feed: {name!r} must be given once, got it by position and by name")
    for name in names:
        if not isinstance(name, str):
            raise FeedError(f"feed: feeds must be named by strings, got {name!r}")
        if not expected:
            raise FeedError(
                f"feed: this network has no feeds, got {name!r}; name its feeds when it is "
                f"compiled: compile(feed=[{name!r}], ...)"
            )
        if name not in expected:
            raise FeedError(
                f"feed: unknown feed, got {name!r}{hint(name, expected)}; "
                f"this network takes {_quote_names(expected)}"
            )
    given_names = [*expected[:n_positional], *names]
    for name in expected[n_positional:]:
        if name not in names:
            raise FeedError(
                f"feed: {name!r} is missing, got {_quote_names(given_names)}; pass {name}=array"
            )


def check_feed(value: Any, variable: Variable, who: str) -> Any:
    """Convert and check a value for a feed, before a network is called with it.

    Parameters
    ----------
    value : array_like
        A NumPy array must have the dtype of the variable, and is borrowed. Python numbers and lists
        are converted to the dtype if it can represent them. An array of another library is returned
        unchanged, because a network reads and checks it in the call.
    variable : Variable
        Its shape is checked in the call.
    who : str
        The caller, for messages.

    Raises
    ------
    FeedError
        If the dtype does not fit the variable.
    """
    spec = FeedSpec(variable.name, None, variable.dtype, who)
    is_lent = is_array(value) and not isinstance(value, np.ndarray)
    if is_lent or find_place(value, current_context(), spec.label) is not None:
        return value
    try:
        array = borrow_host(value, spec.label, spec.dtype, "the variable")
    except (DtypeError, DeviceNotFoundError) as error:
        raise FeedError(str(error)) from error
    check_meta(meta_of(array), spec)
    return array


def check_array(array: Any, spec: FeedSpec) -> Meta:
    """Return the meta of a feed that is ready; FeedError if it does not fit its variable."""
    try:
        meta = meta_of(array)
    except DtypeError as error:
        raise FeedError(
            f"{spec.label}: must be an array of bools, ints or floats, got dtype "
            f"{array.dtype}; cast it to one of these"
        ) from error
    check_meta(meta, spec)
    return meta


def check_meta(meta: Meta, spec: FeedSpec) -> None:
    """Raise FeedError unless a feed with this meta fits its variable."""
    if spec.dtype is not None and meta.dtype != spec.dtype:
        raise FeedError(
            f"{spec.label}: dtype must be {spec.dtype}, got {meta.dtype}; "
            f"pass np.asarray({spec.name}, {spec.dtype!r}){_advise_classes(spec, meta)}"
        )
    if spec.shape is not None and not shapes_match(meta.shape, spec.shape):
        raise FeedError(
            f"{spec.label}: shape must be {shown_shape(spec.shape)}, got "
            f"{shown_shape(meta.shape)}; {advise_shape(spec.name, spec.shape, meta.shape)}"
        )


def _advise_classes(spec: FeedSpec, meta: Meta) -> str:
    wants_classes = str(spec.dtype).startswith("int") and meta.dtype.startswith("float")
    is_wide = len(meta.shape) > 1 and meta.shape[-1] > 1
    return f", or of one-hot rows {spec.name}.argmax(-1)" if wants_classes and is_wide else ""


def shown_shape(shape: Sequence[int]) -> str:
    """Return a shape as text, such as ``(?, 64)``."""
    inner = ", ".join("?" if dim < 0 else str(dim) for dim in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names) or "nothing"
