"""Implements commands such as ``opwright-mpi run``, which run a script in local processes."""

from __future__ import annotations

import importlib.util
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from opwright.plugin import hint
from opwright_dist.errors import DistError
from opwright_dist.launching.ranks import Ranks
from opwright_dist.rendezvous import Meeting

_WRONG_USAGE: Final = 2
_MOST_RANKS: Final = 4096
_OPTIONS: Final = ("-n", "--ranks", "-m", "--module", "-h", "--help")
_HELP_OPTIONS: Final = ("-h", "--help")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HELP: Final = """\
usage: {name} run -n N [-m] SCRIPT [ARGUMENTS]

Run a script in several processes of this machine, connected by {library}. Each printed
line is prefixed with the number of its process. If one fails, or exits without the others, all are
terminated. They share the CPUs: each has OPWRIGHT_NUM_THREADS = CPUs / N, at least 1, unless that
is set.
{more}

  -n N, --ranks N  how many processes
  -m, --module     SCRIPT is a module, as for python -m
  -h, --help       print this"""


class Tool(NamedTuple):
    """A command that starts processes connected by one library.

    Attributes
    ----------
    name : str
        The name of the command.
    library : str
        The library that connects the processes, for messages.
    more : str
        Additional sentences for the help text.
    check : callable
        Raises `DistError` if the library is missing; called before any process starts.
    open_meeting : callable
        Opens the rendezvous for a number of processes.
    variables : callable
        Returns additional environment variables for a rank.
    goodbye : str
        The last action of a process that exits normally: "it had finalized MPI".
    """

    name: str
    library: str
    more: str
    check: Callable[[], object]
    open_meeting: Callable[[int], Meeting]
    variables: Callable[[int], Mapping[str, str]]
    goodbye: str


class _UsageError(Exception):
    """Raised for an invalid command line."""


def launch(tool: Tool, arguments: list[str] | None = None) -> int:
    """Run the command line; return the status of the first process that failed, or 0."""
    try:
        order = _read(tool, sys.argv[1:] if arguments is None else arguments)
        if order is None:
            return 0
        command, n = order
        tool.check()
        ranks = Ranks(command, tool.open_meeting(n), tool.variables, tool.goodbye)
    except _UsageError as error:
        return _fail(f"{tool.name} run: {error}", _WRONG_USAGE)
    except DistError as error:
        return _fail(str(error), 1)
    before = {number: signal.signal(number, ranks.interrupt) for number in _SIGNALS}
    try:
        ending = ranks.run()
    except OSError as error:
        return _fail(f"{tool.name} run: all {n} processes must start, got {error}; start fewer", 1)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return _fail(f"{tool.name}: {ending.message}", ending.status) if ending.message else 0


def _fail(message: str, status: int) -> int:
    print(message, file=sys.stderr)  # noqa: T201
    return status


def _help_of(tool: Tool) -> str:
    return _HELP.format(name=tool.name, library=tool.library, more=tool.more)


class _Chosen(NamedTuple):
    """The parsed command line."""

    n: int
    is_module: bool
    target: list[str]


def _read(tool: Tool, words: list[str]) -> tuple[list[str], int] | None:
    """Return the command and the number of processes, or None if help was printed."""
    if not words or words[0] in _HELP_OPTIONS:
        print(_help_of(tool))  # noqa: T201
        return None
    if words[0] != "run":
        nearest = hint(words[0], ["run"], "commands")
        raise _UsageError(f"unknown command, got {words[0]!r}{nearest}")
    chosen = _read_options(words[1:])
    if chosen is None:
        print(_help_of(tool))  # noqa: T201
        return None
    check = _check_module if chosen.is_module else _check_script
    check(chosen.target[0])
    return [sys.executable, *(["-m"] if chosen.is_module else []), *chosen.target], chosen.n


def _read_options(words: list[str]) -> _Chosen | None:
    """Parse the options before the script; return None if help is requested."""
    rest = list(words)
    n: int | None = None
    is_module = False
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        if name in _HELP_OPTIONS:
            return None
        if name in ("-m", "--module") and not equals:
            is_module = True
        elif name in ("-n", "--ranks"):
            n = _read_count(value if equals else rest.pop(0) if rest else "")
        elif name.startswith("-n") and name[2:].isdecimal():
            n = _read_count(name[2:])
        else:
            raise _UsageError(f"unknown option, got {name!r}{hint(name, _OPTIONS, 'options')}")
    if n is None:
        raise _UsageError("-n must give the number of processes, got none; write -n 4")
    if not rest:
        raise _UsageError(f"a script must follow the options, got none; write run -n {n} train.py")
    return _Chosen(n, is_module, rest)


def _read_count(text: str) -> int:
    n = int(text) if text.isdecimal() else 0
    if not 1 <= n <= _MOST_RANKS:
        raise _UsageError(
            f"-n must be a number of processes in [1, {_MOST_RANKS}], got {text!r}; use "
            "about one process per core of the machine"
        )
    return n


def _check_script(script: str) -> None:
    path = Path(script)
    if path.is_file():
        return
    folder = path.parent
    names = [each.name for each in folder.glob("*.py")] if folder.is_dir() else []
    advice = "; give the path of a Python file"
    if names:
        advice = hint(path.name, names, f"scripts in {folder}")
    raise _UsageError(f"the script must be a file, got {script!r}{advice}")


def _check_module(name: str) -> None:
    sys.path.insert(0, "")  # as with python -m
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    finally:
        sys.path.pop(0)
    if spec is None:
        raise _UsageError(f"the module must be importable, got {name!r}; give its full name")
