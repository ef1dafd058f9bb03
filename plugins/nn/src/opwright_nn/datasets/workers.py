"""Worker processes that make batches ahead, in order.

Each worker has a connection of its own, and gets the number of a batch at a time: there is no
queue and no lock that a killed worker could leave taken. Its end of the connection closes with it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final, NamedTuple, NoReturn

from opwright.errors import AttributeTypeError, OpwrightError

_END_S: Final = 5.0
_WHO: Final = "load_batches"


class LoadError(OpwrightError, RuntimeError):
    """An item of a data set could not be loaded, or a worker process ended."""


class Limit(NamedTuple):
    """How long a batch may keep the iterating process waiting.

    Attributes
    ----------
    seconds : float or None
        None for any time.
    describe : callable
        Returns what a batch is made of, for the message.
    """

    seconds: float | None
    describe: Callable[[int], str]


def iterate_ahead(
    make: Callable[[int], Any], first: int, end: int, workers: int, ahead: int, limit: Limit
) -> Iterator[Any]:
    """Yield ``make(first)`` to ``make(end - 1)``, computed in processes that start now.

    Closing the iterator ends them; so does its deletion, and an exception.

    Parameters
    ----------
    make : callable
        Makes the batch of a number; it is pickled.
    first, end : int
        The numbers.
    workers, ahead : int
        The number of processes, and of batches that each makes ahead.
    limit : Limit
        How long to wait for a batch.
    """
    payload = _pickle(make)
    team: list[tuple[BaseProcess, Connection]] = []
    try:
        for _ in range(min(workers, end - first)):
            team.append(_start(payload))
        asked = first
        for number in range(first, end):
            while asked < min(number + len(team) * ahead, end):
                _ask(*team[(asked - first) % len(team)], asked)
                asked += 1
            process, connection = team[(number - first) % len(team)]
            if not _answers(connection, limit.seconds):
                _raise_stuck(process, limit, number)
            yield _receive(process, connection)
    finally:
        _end(team)


def _pickle(make: Callable[[int], Any]) -> bytes:
    try:
        return pickle.dumps(make)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise AttributeTypeError(
            f"{_WHO}: map and data must be picklable for worker processes, got {error}; pass a "
            "function that a module defines, or workers=0"
        ) from error


def _start(payload: bytes) -> tuple[BaseProcess, Connection]:
    # Not by fork: a lock that another thread holds at that moment would stay locked in the child.
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    own, other = context.Pipe()
    process = context.Process(target=_work, args=(payload, other), daemon=True)  # type: ignore[attr-defined]
    try:
        process.start()
    except BaseException:
        own.close()
        raise
    finally:
        other.close()  # so that the end of the worker is the end of the connection
    return process, own


def _work(payload: bytes, connection: Connection) -> None:
    """Answer each number with its batch, until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that iterates
    make: Callable[[int], Any] | None = None
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            number = connection.recv()
            try:
                make = make or pickle.loads(payload)
                reply = pickle.dumps((make(number), None), protocol=5)
            except Exception as error:  # noqa: BLE001 - raised again where the batch is taken
                text = str(error) if isinstance(error, LoadError) else _describe(error)
                reply = pickle.dumps((None, (text, traceback.format_exc())))
            connection.send_bytes(reply)


def _describe(error: Exception) -> str:
    return (
        f"{_WHO}: a worker process must be able to import map and to send its samples, got "
        f"{type(error).__name__}: {error}; define map in a module, or pass workers=0"
    )


def _ask(process: BaseProcess, connection: Connection, number: int) -> None:
    try:
        connection.send(number)
    except ConnectionError:
        _raise_ended(process)


def _answers(connection: Connection, seconds: float | None) -> bool:
    """Return whether something arrives in time; the end of a worker does, too."""
    try:
        return connection.poll(seconds)
    except ConnectionError:
        return True


def _raise_stuck(process: BaseProcess, limit: Limit, number: int) -> NoReturn:
    raise LoadError(
        f"{_WHO}: a worker must return a batch within timeout={limit.seconds:g} seconds, got "
        f"nothing from process {process.pid} for {limit.describe(number)}; see what map does with "
        "these items, or pass a larger timeout"
    )


def _receive(process: BaseProcess, connection: Connection) -> Any:
    try:
        batch, failure = pickle.loads(connection.recv_bytes())
    except (EOFError, ConnectionError):
        _raise_ended(process)
    if failure is not None:
        text, trace = failure
        error = LoadError(text)
        error.add_note(f"In the worker process:\n{trace}")
        raise error
    return batch


def _raise_ended(process: BaseProcess) -> NoReturn:
    process.join(_END_S)
    raise LoadError(
        f"{_WHO}: worker processes must stay alive, got process {process.pid} ended with exit code "
        f"{process.exitcode} (a negative one is a signal); see whether memory ran out, and call "
        "load_batches under if __name__ == '__main__' in a script"
    ) from None


def _end(team: list[tuple[BaseProcess, Connection]]) -> None:
    for process, connection in team:
        connection.close()
        process.terminate()
    for process, _ in team:
        process.join(_END_S)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()
