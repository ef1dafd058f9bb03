"""Worker processes that make batches ahead, in order, and run as long as the loader exists.

Each worker has its own connection, and gets one batch number at a time. There is no queue, because
a killed worker could leave the lock of a queue locked. The worker's end of the connection closes
when the worker exits.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import queue
import signal
import threading
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import numpy as np

from opwright.errors import AttributeTypeError, OpwrightError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_END_S: Final = 5.0
_WHO: Final = "load_batches"


class LoadError(OpwrightError, RuntimeError):
    """An item of a data set could not be loaded, or a worker process ended."""


class Request(NamedTuple):
    """A request to a worker: the arguments of the batch, and its number among all requests."""

    ticket: int
    arguments: tuple[Any, ...]


class Team:
    """Processes that make batches; they start at first use and are stopped with this object.

    Several iterators may share them: each receives its own batches.

    Parameters
    ----------
    make : callable
        Makes a batch of arguments; it is pickled.
    size, ahead : int
        The number of processes, and of batches that each makes ahead for an iterator.
    timeout : float or None
        The longest wait of the iterating process for a batch in seconds; None for no limit.
    describe : callable
        Returns the name of a batch in messages.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        size: int,
        ahead: int,
        timeout: float | None,
        describe: Callable[..., str],
    ) -> None:
        self._make = make
        self._size = size
        self._ahead = ahead
        self._timeout = timeout
        self._describe = describe
        self._tickets = itertools.count()
        self._workers: list[_Worker] = []
        self._owner = os.getpid()
        weakref.finalize(self, _end, self._workers, self._owner)

    def close(self) -> None:
        """Stop the processes; the next batch restarts them."""
        _end(self._workers, self._owner)

    def iterate(self, first: int, end: int, *more: Any) -> Iterator[Any]:
        """Yield the results of ``make(first, *more)`` to ``make(end - 1, *more)``.

        Closing an iterator does not stop the processes, which other iterators can use.
        """
        workers = self._find_workers(end - first)
        pending: deque[tuple[_Worker, Request]] = deque()
        numbers = iter(range(first, end))
        try:
            while True:
                for number in itertools.islice(numbers, len(workers) * self._ahead - len(pending)):
                    worker = workers[(number - first) % len(workers)]
                    request = Request(next(self._tickets), (number, *more))
                    pending.append((worker, request))
                    worker.ask(request)
                if not pending:
                    return
                yield self._take(*pending.popleft())
        finally:
            for worker, request in pending:
                worker.forget(request)

    def _find_workers(self, n_batches: int) -> list[_Worker]:
        """Return as many processes as needed; dead processes are restarted."""
        for worker in [worker for worker in self._workers if not worker.is_alive]:
            self._discard(worker)
        missing = min(self._size, n_batches) - len(self._workers)
        payload = _pickle(self._make) if missing > 0 else b""
        for _ in range(missing):
            self._workers.append(_Worker(payload))
        return self._workers[:n_batches]

    def _take(self, worker: _Worker, request: Request) -> Any:
        try:
            batch, failure = worker.take(request, self._timeout)
        except TimeoutError:
            self._discard(worker)
            raise LoadError(
                f"{_WHO}: a worker must return a batch within timeout={self._timeout:g} seconds, "
                f"got nothing from process {worker.pid} for {self._describe(*request.arguments)}; "
                "check what map does with these items, or pass a larger timeout"
            ) from None
        except BaseException:  # Ctrl-C may leave a part of a reply unread
            self._discard(worker)
            raise
        if failure is not None:
            text, trace = failure
            error = LoadError(text)
            error.add_note(f"In the worker process:\n{trace}")
            raise error
        return batch

    def _discard(self, worker: _Worker) -> None:
        if worker in self._workers:  # another iterator may have done it
            self._workers.remove(worker)
        _end([worker], self._owner)


class _Worker:
    """A process, and the connection to it; replies come in the order of requests."""

    def __init__(self, payload: bytes) -> None:
        import multiprocessing  # 12 ms to import

        # fork is not used: a lock held by another thread would stay locked in the child.
        methods = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        self.connection, other = context.Pipe()
        process = context.Process(target=_work, args=(payload, other), daemon=True)  # type: ignore[attr-defined]
        try:
            process.start()
        except BaseException:
            self.connection.close()
            raise
        finally:
            other.close()  # so that the connection ends with the worker
        self.process = process
        self.pid = process.pid
        self.exitcode: int | None = None
        self._replies: dict[int, tuple[Any, Any]] = {}
        self._forgotten: set[int] = set()

    @property
    def is_alive(self) -> bool:
        """Whether the process can answer requests."""
        return not self.connection.closed and self.process.is_alive()

    def ask(self, request: Request) -> None:
        """Send a request."""
        with contextlib.suppress(OSError):  # it has ended, which `take` reports
            self.connection.send(request)

    def forget(self, request: Request) -> None:
        """Drop the reply to a request, whether received or still to come."""
        if self._replies.pop(request.ticket, None) is None:
            self._forgotten.add(request.ticket)

    def take(self, request: Request, timeout: float | None) -> tuple[Any, Any]:
        """Return the reply to a request: a batch or an error; raise TimeoutError or LoadError."""
        while request.ticket not in self._replies:
            try:
                if timeout is not None and not self.connection.poll(timeout):
                    raise TimeoutError
                ticket, reply = _receive(self.connection)
            except TimeoutError:
                raise
            except (EOFError, OSError):  # it has ended, or another iterator has ended it
                self._raise_ended()
            if ticket in self._forgotten:
                self._forgotten.remove(ticket)
            else:
                self._replies[ticket] = reply
        return self._replies.pop(request.ticket)

    def _raise_ended(self) -> NoReturn:
        if not self.connection.closed:
            self.process.join(_END_S)
            self.exitcode = self.process.exitcode
        raise LoadError(
            f"{_WHO}: worker processes must stay alive, got process {self.pid} ended with exit "
            f"code {self.exitcode} (negative for a signal); check whether memory ran out, and "
            "call load_batches under if __name__ == '__main__' in a script"
        ) from None


def _end(workers: list[_Worker], owner: int) -> None:
    """Stop processes, unless this process is a fork of their parent."""
    if os.getpid() != owner:
        return
    ending = [worker for worker in workers if not worker.connection.closed]
    workers.clear()
    for worker in ending:
        worker.connection.close()
        worker.process.terminate()
    for worker in ending:
        worker.process.join(_END_S)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.exitcode = worker.process.exitcode
        worker.process.close()


def _pickle(make: Callable[..., Any]) -> bytes:
    try:
        return pickle.dumps(make)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise AttributeTypeError(
            f"{_WHO}: map and data must be picklable for worker processes, got {error}; pass a "
            "function that a module defines, or workers=0"
        ) from error


def _work(payload: bytes, connection: Connection) -> None:
    """Answer requests until the other end of the connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the iterating process handles Ctrl-C
    # Send a batch while the next batch is made, since a connection buffers less than a batch.
    replies: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    threading.Thread(target=_send, args=(connection, replies), daemon=True).start()
    make: Callable[..., Any] | None = None
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            ticket, arguments = connection.recv()
            try:
                make = make or pickle.loads(payload)
                reply = _pack((make(*arguments), None))
            except Exception as error:  # noqa: BLE001 - raised again where the batch is taken
                text = str(error) if isinstance(error, LoadError) else _describe(error)
                reply = _pack((None, (text, traceback.format_exc())))
            replies.put((ticket, reply))


def _describe(error: Exception) -> str:
    return (
        f"{_WHO}: a worker process must be able to import map and to send its samples, got "
        f"{type(error).__name__}: {error}; define map in a module, or pass workers=0"
    )


def _pack(reply: Any) -> tuple[bytes, list[memoryview]]:
    """Return a pickle and the buffers of its arrays, which are sent without a copy."""
    buffers: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(reply, protocol=5, buffer_callback=buffers.append)
    return packed, [buffer.raw() for buffer in buffers]


def _send(connection: Connection, replies: queue.SimpleQueue[tuple[int, Any]]) -> None:
    """Send replies in their order."""
    with contextlib.suppress(OSError):  # the other end is closed
        while True:
            ticket, (packed, views) = replies.get()
            connection.send((ticket, packed, [view.nbytes for view in views]))
            for view in views:
                sent = 0
                while sent < view.nbytes:
                    sent += os.write(connection.fileno(), view[sent:])


def _receive(connection: Connection) -> tuple[int, Any]:
    """Return a ticket and its reply; the arrays use the memory into which the reply was read."""
    ticket, packed, sizes = connection.recv()
    buffers = []
    for size in sizes:
        # np.empty is used, because a bytearray of that size would first be filled with zeros.
        view = np.empty(size, np.uint8).data
        buffers.append(view)
        while view:
            count = os.readv(connection.fileno(), [view])
            if not count:
                raise EOFError
            view = view[count:]
    return ticket, pickle.loads(packed, buffers=buffers)
