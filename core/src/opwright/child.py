"""Runs functions in a child process, which may crash, hang, or write to any descriptor.

Messages are pickled and framed. A damaged, oversized or late message ends the exchange, as a crash
does.
"""

from __future__ import annotations

import ctypes
import math
import os
import pickle
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import weakref
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any, Final, Self

from opwright import errors
from opwright.foreign import describe_error, import_object, show

START_S: Final = 120.0
"""The time limit in seconds for the start of a process on a busy machine."""

_MOST_BYTES: Final = 1 << 26
"""The maximum size of a message; arrays are passed in shared memory."""

_HEAD: Final = struct.Struct("<8sII")
"""The header of a message, with magic number, checksum and size in bytes."""

_MARK: Final = b"opwright"

_LOOK_S: Final = 0.1
"""The interval at which a silent process is checked to be alive."""

_LAST_WORDS_S: Final = 2.0
"""The time limit for a process to exit, once it has closed its socket or is aborted."""

_DAMAGED: Final = "sent a damaged message"

_PR_SET_PDEATHSIG: Final = 1

# The path is set first, since the child must import the same modules as this process.
_BOOT: Final = (
    "import pickle, sys; file = int(sys.argv[1]); "
    "sys.path[:] = pickle.load(open(file, 'rb', 0, closefd=False)); "
    "from opwright.child import main; main(file, int(sys.argv[2]))"
)


class ChildEnded(Exception):  # noqa: N818 - an observation, from which callers make their error
    """Raised when a child ends instead of answering; the message describes how it ended.

    ``crashed with SIGSEGV``, ``ended the process with exit code 3``, ``took more than 3 s``, or
    ``sent a damaged message``.
    """


class ChildRaised(Exception):  # noqa: N818 - likewise
    """Raised if the function in a child raises; contains class and message of that exception."""


class Channel:
    """One end of the connection between two processes."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def send(self, message: object, timeout_s: float = math.inf) -> None:
        """Send anything that can be pickled, of at most 64 MiB."""
        body = pickle.dumps(message)
        if len(body) > _MOST_BYTES:
            raise errors.FormatError(f"child: messages have at most {_MOST_BYTES} bytes")
        deadline = time.monotonic() + timeout_s
        rest = memoryview(_HEAD.pack(_MARK, zlib.crc32(body), len(body)) + body)
        while rest:
            self._await(select.POLLOUT, deadline)
            with suppress(BlockingIOError):
                rest = rest[self._socket.send(rest, socket.MSG_DONTWAIT) :]

    def receive(self, timeout_s: float = math.inf, since: float | None = None) -> Any:
        """Return the next message; EOFError if the other end is closed."""
        deadline = (time.monotonic() if since is None else since) + timeout_s
        mark, checksum, size = _HEAD.unpack(self._read(_HEAD.size, deadline))
        is_ours = mark == _MARK and size <= _MOST_BYTES
        body = self._read(size, deadline) if is_ours else b""
        if not is_ours or zlib.crc32(body) != checksum:
            raise ChildEnded(_DAMAGED)
        return pickle.loads(body)

    def _read(self, size: int, deadline: float) -> bytes:
        data = b""
        while len(data) < size:
            self._await(select.POLLIN, deadline)
            part = self._socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def _await(self, event: int, deadline: float) -> None:
        """Wait, without a time limit, until the socket is ready."""


class Child(Channel):
    """A process that runs ``function(channel, *arguments)``; close it, or use a ``with`` block.

    The result of the function is its last message.

    Parameters
    ----------
    function : str
        ``"module:name"``; the child imports it with the ``sys.path`` of this process.
    *arguments
        Anything that can be pickled.
    files : sequence of int
        Descriptors that the child inherits, under the same numbers.
    capture : bool
        Whether to keep its output, see `printed`; otherwise it goes to standard error here.
    """

    def __init__(
        self, function: str, *arguments: Any, files: Sequence[int] = (), capture: bool = False
    ) -> None:
        ours, theirs = socket.socketpair()
        super().__init__(ours)
        self._printed = tempfile.TemporaryFile() if capture else None  # noqa: SIM115 - see `close`
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=self._printed or 2,
                stderr=self._printed,
                pass_fds=(theirs.fileno(), *files),
                start_new_session=True,  # so that Ctrl-C reaches only this process
            )
        self._end = weakref.finalize(self, _end_group, self._process, ours, os.getpid())
        path = [entry or os.getcwd() for entry in sys.path]  # noqa: PTH109 - pathlib takes 4 ms
        self._exchange(START_S, ours.sendall, pickle.dumps(path))
        self.send((function, arguments))

    def ask(self, message: object, timeout_s: float) -> Any:
        """Send a message and return the answer, see `receive`."""
        self.send(message, timeout_s)
        return self.receive(timeout_s)

    def send(self, message: object, timeout_s: float = START_S) -> None:
        """Send a message; ChildEnded if the child has ended or does not read it in time."""
        self._exchange(timeout_s, super().send, message, timeout_s)

    def receive(self, timeout_s: float = START_S, since: float | None = None) -> Any:
        """Return the next message of the child.

        Parameters
        ----------
        timeout_s : float
            The time limit in seconds.
        since : float, optional
            The start of the time limit, by ``time.monotonic()``; by default now.

        Raises
        ------
        ChildEnded
            If the child ends, does not answer in time, or the connection is corrupted. The child
            and all processes that it has started are then killed.
        ChildRaised, OpwrightError
            If the function raises.
        """
        message = self._exchange(timeout_s, super().receive, timeout_s, since)
        if isinstance(message, Exception):
            raise message
        return message

    def _exchange(self, timeout_s: float, function: Callable[..., Any], *arguments: Any) -> Any:
        how = ""
        try:
            return function(*arguments)
        except ChildEnded as end:
            how = str(end) or f"took more than {timeout_s:g} s"
        except (pickle.UnpicklingError, AttributeError, ImportError):
            how = _DAMAGED
        except (EOFError, ConnectionError):
            pass
        except BaseException:  # an interrupt; a late answer must not answer the next request
            self.close()
            raise
        with suppress(subprocess.TimeoutExpired):
            how = how or describe_exit(self._process.wait(_LAST_WORDS_S))
            self._process.wait(_LAST_WORDS_S)
        self._end()
        raise ChildEnded(how or "closed its connection")

    def _await(self, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._socket, event)
        while not poll.poll(1000 * min(_LOOK_S, max(0.0, deadline - time.monotonic()))):
            # A process started by the child may leave the connection open.
            if self._process.poll() is not None and not poll.poll(0):
                raise EOFError
            if time.monotonic() >= deadline:
                self._process.send_signal(signal.SIGABRT)  # this may print its stack
                raise ChildEnded  # `_exchange` adds the time limit

    @property
    def printed(self) -> str:
        """The child's output so far, safe for a terminal; empty if it is not captured."""
        file = self._printed or BytesIO()
        file.seek(0)
        return show(file.read().decode("utf-8", "replace"))

    def close(self) -> None:
        """Kill the child and its descendants."""
        self._end()
        if self._printed is not None:
            self._printed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _end_group(process: subprocess.Popen[bytes], end: socket.socket, owner: int) -> None:
    if owner == os.getpid():  # after a fork the process belongs to the parent
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    end.close()


def run_trial(_: Channel, function: str, *arguments: Any) -> None:
    """Call a function by name, and keep the result in the child."""
    import_object(function)(*arguments)


def main(file: int, parent: int) -> None:
    """Run the function that the parent names, send its result, and exit."""
    end_with_parent(parent)
    end_without_core()
    channel = Channel(socket.socket(fileno=file))
    function, arguments = channel.receive()
    try:
        answer = import_object(function)(channel, *arguments)
    except (EOFError, SystemExit):  # the parent has closed its end, or the function has ended
        raise
    except BaseException as error:  # noqa: BLE001 - sent to the parent
        is_ours = type(error).__module__ == errors.__name__
        if not is_ours:  # the parent prints opwright errors
            traceback.print_exc()
        answer = type(error)(str(error)) if is_ours else ChildRaised(describe_error(error))
    channel.send(answer)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # skips exit handlers of plugins


def end_with_parent(parent: int) -> None:
    """Make the system kill this process when its parent exits for any reason."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def end_without_core() -> None:
    """Suppress the core file of an expected crash."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def describe_exit(code: int) -> str:
    """Describe how a process ended, by its exit code, or by the signal if the code is negative."""
    if code >= 0:
        return f"ended the process with exit code {code}"
    return f"crashed with {signal.Signals(-code).name}"
