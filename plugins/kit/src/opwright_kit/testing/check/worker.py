"""Runs the rules in a child process, so the parent process (`IsolatedCheck`) survives crashes."""

from __future__ import annotations

from typing import Any, NoReturn

from opwright.commands import Channel
from opwright_kit.testing.check.package import PackageCheck


def serve_check(channel: Channel, distribution: str, options: dict[str, Any]) -> NoReturn:
    """Send name, version and subjects of a distribution, then the results of the check's methods.

    Notes of the next action come before the reply.
    """
    check = PackageCheck(distribution, notes=channel.send, **options)
    channel.send((check.card.distribution, check.card.version, check.subjects))
    while True:
        method, *arguments = channel.receive()
        channel.send(getattr(check, method)(*arguments))
