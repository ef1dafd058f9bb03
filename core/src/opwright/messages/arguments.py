"""Reports unknown arguments of a function, and suggests the most similar known argument."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from opwright.errors import AttributeTypeError
from opwright.messages.names import hint_argument

F = TypeVar("F", bound=Callable[..., Any])

_OWNERS: Final = {"self", "cls", "_cls"}
"""The implicit first parameter of constructors; a NamedTuple names it ``_cls``."""


def suggest_arguments(function: F) -> F:
    """Wrap a function so that a call with wrong arguments raises AttributeTypeError with a hint.

    Suitable for functions, constructors, and classes whose constructor is generated (dataclasses
    and NamedTuples), but not for functions that every step calls, since a call takes 0.2 µs longer.
    """
    if not isinstance(function, type):
        return _wrap(function)
    owner: Any = function
    if "__new__" in vars(owner):
        owner.__new__ = staticmethod(_wrap(owner.__new__))
    else:
        owner.__init__ = _wrap(owner.__init__)
    return function


def _wrap(function: F) -> F:
    @functools.wraps(function)
    def checked(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except TypeError as error:
            if type(error) is TypeError:  # raised by Python; our errors already have a message
                check_arguments(_who(function, args), inspect.signature(function), args, options)
            raise

    return checked  # type: ignore[return-value]  # which wraps the function


def _who(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    if "." not in function.__qualname__ or not args:
        return function.__qualname__
    owner = args[0] if isinstance(args[0], type) else type(args[0])
    is_constructor = function.__name__ in {"__init__", "__new__"}
    return owner.__name__ if is_constructor else f"{owner.__name__}.{function.__name__}"


def check_flag(who: str, argument: str, value: object) -> bool:
    """Return an argument that is True or False; raise AttributeTypeError for any other value."""
    if not isinstance(value, bool):
        raise AttributeTypeError(f"{who}: {argument} must be True or False, got {value!r}")
    return value


def check_arguments(
    who: str, signature: inspect.Signature, args: Iterable[Any], options: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Bind arguments to names; raise AttributeTypeError if they do not fit a signature.

    Parameters
    ----------
    who : str
        The name of the function, for messages.
    signature : Signature
        Its parameters.
    args, options
        Positional and keyword arguments.
    """
    try:
        return signature.bind(*args, **options)
    except TypeError as error:
        names = [name for name in signature.parameters if name not in _OWNERS]
        takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
        for name in () if takes_any else options:
            if name not in names:
                near = hint_argument(name, names, "arguments")
                raise AttributeTypeError(f"{who}: unknown argument, got {name!r}{near}") from None
        raise AttributeTypeError(f"{who}: {error}; its arguments are {', '.join(names)}") from None
