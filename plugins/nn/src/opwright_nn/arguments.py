"""Reports arguments that a function does not have, with the nearest name that it has."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, ParamSpec, TypeVar

from opwright.errors import AttributeTypeError
from opwright.plugin import hint

P = ParamSpec("P")
R = TypeVar("R")

_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "batch_size": ("size",),
    "beta_1": ("beta1",),
    "beta_2": ("beta2",),
    "d_model": ("size",),
    "dilation": ("dilations",),
    "dilation_rate": ("dilations",),
    "dim": ("axis", "size"),
    "dim_feedforward": ("hidden",),
    "drop_prob": ("probability", "dropout"),
    "embed_dim": ("size",),
    "embedding_dim": ("size",),
    "eps": ("epsilon",),
    "fetch_list": ("fetch",),
    "hidden_size": ("size",),
    "in_features": ("size",),
    "initial_state": ("h0",),
    "input_dim": ("size",),
    "input_length": ("lengths",),
    "is_causal": ("causal",),
    "key_padding_mask": ("lengths", "mask"),
    "keepdim": ("keepdims",),
    "kernel_initializer": ("param_attr",),
    "kernel_size": ("kernel",),
    "labels": ("label",),
    "lr": ("learning_rate",),
    "max_epochs": ("epochs",),
    "metric": ("monitor", "metrics"),
    "n_heads": ("heads",),
    "nhead": ("heads",),
    "normalized_shape": ("begin_norm_axis",),
    "num_epochs": ("epochs",),
    "num_groups": ("groups",),
    "num_heads": ("heads",),
    "out_channels": ("filters",),
    "out_features": ("size",),
    "output_dim": ("size",),
    "p": ("probability",),
    "padding": ("paddings",),
    "padding_idx": ("padding_index",),
    "pool_size": ("kernel",),
    "pos_weight": ("positive_weight",),
    "rate": ("probability", "learning_rate", "dropout"),
    "stride": ("strides",),
    "target": ("label",),
    "targets": ("label",),
    "units": ("size",),
    "use_bias": ("bias",),
    "val_data": ("validation",),
    "validation_data": ("validation",),
    "weight": ("class_weights", "param_attr"),
    "y_true": ("label",),
}
"""What other frameworks and papers call an argument; the first name that a function has counts."""


def suggest(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function; a call with wrong arguments raises AttributeTypeError with a hint.

    For functions and for ``__init__``, not for what runs once in a step: a call costs 0.2 µs more.
    """

    @functools.wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        try:
            return function(*args, **options)
        except TypeError as error:
            if type(error) is TypeError:  # Python's own; ours have names already
                who = function.__qualname__.removesuffix(".__init__")
                check_arguments(who, inspect.signature(function), args, options)
            raise

    return checked


def check_arguments(
    who: str, signature: inspect.Signature, args: Iterable[Any], options: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Return arguments by name; raise AttributeTypeError where they do not fit a signature.

    Parameters
    ----------
    who : str
        The function, for messages.
    signature : Signature
        Its parameters.
    args, options
        Positional and keyword arguments.
    """
    try:
        return signature.bind(*args, **options)
    except TypeError as error:
        names = [name for name in signature.parameters if name != "self"]
        for name in options:
            if name not in names:
                raise AttributeTypeError(
                    f"{who}: arguments must be those that it has, got {name!r}{_hint(name, names)}"
                ) from None
        raise AttributeTypeError(f"{who}: {error}; its arguments are {', '.join(names)}") from None


def _hint(name: str, names: list[str]) -> str:
    for other in _OTHER_NAMES.get(name, ()):
        if other in names:
            return f"; did you mean {other!r}?"
    return hint(name, names, "arguments")
