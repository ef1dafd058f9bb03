"""For packages that add commands to ``opwright``.

A command is an entry point in the group ``opwright.commands`` that names a `Command`, whose module
has ``add_arguments(parser)`` and ``run(args) -> exit code`` and is imported at first use:

>>> SIZES = Command("show how large the operators are", "opwright_acme.sizes")

Look up names from the command line within ``with resolving():``, so that an unknown name gives exit
code 2, like any wrong usage; findings of a command give exit code 1. Code that may crash or hang
runs in a separate process (`Child`). A process that is started in another way should exit when the
command exits (`end_with_parent`). `describe_exit` describes how a process ended, and
`end_without_core` suppresses the core dump of an expected crash. JSON is printed by `print_json`,
separately from text that plugins print. A command that runs a saved program can accept the shapes
of feeds (`add_feed_argument`, `make_feeds`) and fetch the results (`results_of`).

A plugin that uses a service, such as MPI, can make ``opwright doctor`` examine it, with an annex of
the topic ``doctor``, a function that returns an `Examination`.
"""

from __future__ import annotations

from opwright.child import (
    Channel,
    Child,
    ChildEnded,
    ChildRaised,
    describe_exit,
    end_with_parent,
    end_without_core,
)
from opwright.cli.command import GROUP, Command, print_json, resolving
from opwright.cli.examine import DOCTOR_TOPIC, Examination
from opwright.cli.feeds import add_feed_argument, make_feeds, read_feed, results_of
from opwright.messages.tables import align, format_seconds

__all__ = [
    "DOCTOR_TOPIC",
    "GROUP",
    "Channel",
    "Child",
    "ChildEnded",
    "ChildRaised",
    "Command",
    "Examination",
    "add_feed_argument",
    "align",
    "describe_exit",
    "end_with_parent",
    "end_without_core",
    "format_seconds",
    "make_feeds",
    "print_json",
    "read_feed",
    "resolving",
    "results_of",
]
