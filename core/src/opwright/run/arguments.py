"""Checks the arguments of `Network`, its ``run`` and its ``compile``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opwright.errors import FeedError, ProgramError
from opwright.plugins.threads import is_deterministic
from opwright.program import Operator, Variable
from opwright.registry import HOST_DEVICE


def checked_operators(given: Any) -> Iterable[Operator]:
    """Return what a network is made of; ProgramError where that cannot be operators."""
    if not isinstance(given, Iterable):
        raise ProgramError(
            f"Network: must be given a Block or Operators, got {type(given).__name__}; "
            "pass program.global_block()"
        )
    return given


def check_fallback(who: str, fallback: Any) -> None:
    """Raise ProgramError for a fallback other than the host."""
    if fallback is not None and fallback != HOST_DEVICE:
        raise ProgramError(
            f"{who}: fallback must be None or {HOST_DEVICE!r}, got {fallback!r}; only the host can "
            "run what a device has no kernel for"
        )


def choose_deterministic(who: str, given: Any) -> bool:
    """Return whether a plan must be deterministic, by default what the environment says."""
    if given is None:
        return is_deterministic()
    if not isinstance(given, bool):
        raise ProgramError(
            f"{who}: deterministic must be True, False or None, got {given!r}; give True "
            "for results that do not depend on the number of threads"
        )
    return given


def list_items(items: Any, what: str) -> list[Any]:
    """The items of a feed, fetch or passes argument: names or variables, not one bare name."""
    if isinstance(items, (str, Variable)) or not isinstance(items, Iterable):
        raise FeedError(
            f"Network.compile: {what} must be a list, got {items!r}; write {what}=[{items!r}]"
        )
    listed = list(items)
    for item in listed:
        if not isinstance(item, (str, Variable)):
            raise FeedError(f"Network.compile: {what} must hold variables or names, got {item!r}")
    return listed
