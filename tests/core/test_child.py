"""A function in a child process returns a value or an error within a time limit."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from opwright.child import Child, ChildEnded, ChildRaised
from opwright.errors import FormatError, ShapeError

FUNCTIONS = """
import os, signal, subprocess, sys, time
from opwright.errors import ShapeError

def add(channel, *numbers):
    return sum(numbers)

def echo(channel):
    while True:
        channel.send(channel.receive())

def crash(channel):
    os.kill(os.getpid(), signal.SIGSEGV)

def leave(channel):
    print("last words")
    sys.exit(3)

def hang(channel):
    time.sleep(1000)

def fail(channel):
    raise ValueError("torn\\x1b")

def refuse(channel):
    raise ShapeError("f: no")

def stray(channel):
    channel._socket.send(b"x")
    return 1

def half(channel):
    channel._socket.send(b"opwri")
    time.sleep(1000)

def flip(channel):
    channel.send("before")
    channel._socket.send(b"opwright" + bytes(4) + (3).to_bytes(4, "little") + b"abc")

def boast(channel):
    channel._socket.send(b"opwright" + bytes(4) + b"\\xff" * 4)
    time.sleep(1000)

def close(channel):
    channel._socket.close()
    time.sleep(1000)

def leave_one_behind(channel):
    started = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(1000)"],
        pass_fds=[channel._socket.fileno()],
    )
    channel.send(started.pid)
    os._exit(0)

"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "functions_of_children.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "functions_of_children:"


def test_the_child_replies_with_the_return_value_of_a_function(functions: str) -> None:
    with Child(f"{functions}add", 1, 2, 3) as child:
        assert child.receive() == 6


def test_requests_are_answered_sequentially(functions: str) -> None:
    with Child(f"{functions}echo") as child:
        for message in ((1, "a"), {"x": float("inf")}, b"y" * 3_000_000):
            assert child.ask(message, 60.0) == message


@pytest.mark.parametrize(
    ("function", "how", "limit_s"),
    [
        ("crash", "crashed with SIGSEGV", 60.0),
        ("leave", "ended the process with exit code 3", 60.0),
        ("hang", "took more than 1 s", 1.0),
        ("half", "took more than 1 s", 1.0),
        ("stray", "sent a damaged message", 60.0),
        ("boast", "sent a damaged message", 60.0),
        ("close", "closed its connection", 60.0),
    ],
)
def test_the_error_states_why_a_child_did_not_answer(
    functions: str, function: str, how: str, limit_s: float
) -> None:
    with Child(f"{functions}{function}", capture=True) as child:
        with pytest.raises(ChildEnded, match=f"^{how}$"):
            child.receive(limit_s)
        assert child.printed == ("last words\n" if function == "leave" else child.printed)


def test_a_damaged_message_after_a_valid_message_is_refused(functions: str) -> None:
    with Child(f"{functions}flip") as child:
        assert child.receive() == "before"
        with pytest.raises(ChildEnded, match="sent a damaged message"):
            child.receive()


def test_exceptions_raised_by_a_function_are_reraised_in_the_parent(functions: str) -> None:
    with Child(f"{functions}fail", capture=True) as child:
        with pytest.raises(ChildRaised, match=r"^ValueError: torn\\x1b$"):
            child.receive()
        assert "Traceback" in child.printed
    with (
        Child(f"{functions}refuse", capture=True) as child,
        pytest.raises(ShapeError, match="f: no"),
    ):
        child.receive()


def test_a_function_that_cannot_be_imported_raises_in_the_parent(functions: str) -> None:
    with (
        Child("nowhere:f", capture=True) as child,
        pytest.raises(ChildRaised, match="ModuleNotFoundError"),
    ):
        child.receive()


def test_processes_started_by_a_child_are_killed_with_it(functions: str) -> None:
    with Child(f"{functions}leave_one_behind") as child:
        started = child.receive()
        with pytest.raises(ChildEnded, match="ended the process with exit code 0"):
            child.receive()
    for _ in range(600):
        status = Path(f"/proc/{started}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.1)
    raise AssertionError("it goes on")


class Stop(Exception):  # noqa: N818 - of a handler
    """Raised by a signal handler in a test."""


def test_an_exception_raised_by_a_signal_handler_propagates_out_of_an_exchange(
    functions: str,
) -> None:
    def stop(number: int, frame: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    try:
        with Child(f"{functions}hang") as child:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(Stop):
                child.receive(600.0)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_the_size_of_a_message_is_limited(functions: str) -> None:
    with (
        Child(f"{functions}echo") as child,
        pytest.raises(FormatError, match="messages have at most"),
    ):
        child.ask(bytes((1 << 26) + 1), 60.0)
