"""Training: the loop over epochs and steps, and its interface for callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import opwright as ow
from opwright.errors import FormatError
from opwright_nn import arguments, checks, fields
from opwright_nn.optimizer import Optimizer
from opwright_nn.parallel import Team
from opwright_nn.training.callback import Callback
from opwright_nn.training.display import Display
from opwright_nn.training.history import TIMES, History, pack_records
from opwright_nn.training.interrupt import Interrupt, catch_interrupt
from opwright_nn.training.kept_state import check_counts, check_state
from opwright_nn.training.source import Source
from opwright_nn.training.totals import Totals

_MAX_CHUNK: Final = 1024
_CHUNK_S: Final = 0.05
"""Steps run in chunks of about this duration; between chunks, numbers are read and shown."""


class Trained(NamedTuple):
    """What is trained.

    Attributes
    ----------
    find_step : callable
        Returns ``step(**feeds) -> list``, whose first value is the loss; called before each epoch,
        since a callback may have changed the model.
    names : tuple of str
        The names of its values in the history.
    scope : Scope or None
        The scope of the variables; None for a function with its own variables.
    program : Program or None
        The program of the step, if known.
    optimizer : Optimizer or None
        The optimizer of the updates, if known.
    fetches : tuple of str
        The variables that the step returns.
    options : mapping
        Device, fallback and determinism, as for ``Network.compile``.
    team : Team or None
        The processes that train together, each with its shard of every batch.
    """

    find_step: Callable[[], Callable[..., Sequence[Any]]]
    names: tuple[str, ...]
    scope: ow.Scope | None
    program: ow.Program | None = None
    optimizer: Optimizer | None = None
    fetches: tuple[str, ...] = ()
    options: Mapping[str, Any] = MappingProxyType({})
    team: Team | None = None


class Training:
    """The interface of a training run for callbacks.

    Parameters
    ----------
    trained : Trained
        The step and its components.
    source : Source
        The batches.
    epochs : int
        The number of epochs.
    callbacks : sequence of Callback
        In the order in which they are called.
    evaluate : callable, optional
        Returns additional numbers of an epoch, by column.
    columns : iterable of str
        The columns of the history, in addition to the columns that every history has.
    display : Display
        Shows the progress.

    Attributes
    ----------
    epoch : int
        The number of finished epochs.
    n_steps : int
        The number of steps of all epochs so far.
    history : History
        A row for each finished epoch.
    stop_reason : str or None
        Why training stops after this epoch; None while it continues.
    callbacks : tuple of Callback
        All callbacks, in the order in which they are called.
    program : Program or None
        The program of a step, None if unknown.
    optimizer : Optimizer or None
        The optimizer of the parameters, None if unknown.
    fetches : tuple of str
        The variables that a step returns.
    run_options : mapping
        Device, fallback and determinism of a step, as for ``Network.compile``.
    is_shared, is_first : bool
        Whether several processes train together, and whether this process writes for all of them.
    """

    @arguments.suggest
    def __init__(
        self,
        trained: Trained,
        source: Source,
        epochs: int,
        callbacks: Sequence[Callback],
        evaluate: Callable[[], Mapping[str, float]] | None,
        columns: Iterable[str],
        display: Display,
    ) -> None:
        self.epochs = epochs
        self.columns = (*columns, *(["learning_rate"] if trained.optimizer else []), *TIMES)
        self.epoch = 0
        self.n_steps = 0
        self.history = History()
        self.stop_reason: str | None = None
        self._trained = trained
        self._source = source
        self.callbacks = tuple(sorted(callbacks, key=lambda callback: callback.is_last))
        self.program, self.optimizer = trained.program, trained.optimizer
        self.fetches, self.run_options = trained.fetches, trained.options
        self.is_shared = trained.team is not None
        self.is_first = trained.team is None or trained.team.rank == 0
        self._evaluate = evaluate
        self._display = display
        self._done = 0
        self._seconds = 0.0
        self._n_chunk = 1
        self._totals = Totals(trained.names)

    # -- The interface for callbacks -------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """End the training after this epoch; the history gets the reason."""
        self.stop_reason = checks.check_str("Training.stop", "reason", reason)

    @property
    def scope(self) -> ow.Scope:
        """The scope of the variables; for a step function, the default scope, even if unused."""
        return self._trained.scope or ow.default_scope()

    def example_feeds(self) -> Mapping[str, Any]:
        """Return the feeds of a batch, without advancing."""
        return self._source.example()

    @property
    def learning_rate(self) -> float | None:
        """The learning rate of the last step, or None if there is no optimizer."""
        return None if self.optimizer is None else self.read_learning_rate(self.optimizer)

    def read_learning_rate(self, optimizer: Optimizer) -> float:
        """Return the rate that an optimizer has in the scope."""
        return float(self.scope.var(optimizer.learning_rate.name).numpy().item())

    # -- Checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return everything besides the variables that later steps depend on, for JSON.

        Raises
        ------
        FormatError
            If a callback has set a value that `restore` would refuse.
        """
        state = {
            "epoch": self.epoch,
            "done": self._done,
            "n_steps": self.n_steps,
            "seconds": self._seconds,
            "totals": self._join_totals().state(),
            "stop_reason": self.stop_reason,
            "history": pack_records(self.history.records),
            "callbacks": {name: item.state() for name, item in self._named_callbacks()},
            "position": self._source.position,
        }
        check_state(state)
        return state

    def restore(self, state: object) -> None:
        """Restore a state that `state` returned; FormatError for anything else."""
        kept = check_state(state)
        totals = Totals(self._trained.names)
        totals.restore(kept["totals"])
        self._source.restore(kept["position"])
        check_counts(kept, self._source)
        if kept["done"] == 0 and totals.state() != Totals(totals.names).state():
            fields.refuse("totals", "0 where no step of the epoch is done", kept["totals"])
        for name, callback in self._named_callbacks():
            if name in kept["callbacks"]:
                _restore_callback(name, callback, kept["callbacks"][name])
        self.epoch, self._done = kept["epoch"], kept["done"]
        self.n_steps, self._seconds = kept["n_steps"], kept["seconds"]
        self.stop_reason = kept["stop_reason"]
        if self.is_first:  # the totals of all processes, which are merged
            self._totals = totals
        self.history = History(kept["history"])
        self._display.note(f"resumed after {self.n_steps} steps, in epoch {self.epoch + 1}")

    def _named_callbacks(self) -> list[tuple[str, Callback]]:
        counts: dict[str, int] = {}
        named = []
        for callback in self.callbacks:
            kind = type(callback).__name__
            counts[kind] = counts.get(kind, -1) + 1
            named.append((f"{kind}.{counts[kind]}", callback))
        return named

    # -- The loop --------------------------------------------------------------------------------

    def run(self) -> History:
        """Train until the end, until a callback stops it, or until Ctrl-C."""
        for callback in self.callbacks:
            callback.begin(self)
        interrupted = False
        with catch_interrupt(is_shared=self.is_shared) as interrupt:
            while self.epoch < self.epochs and self.stop_reason is None and not interrupted:
                if self._run_epoch(interrupt):
                    self._end_epoch()
                interrupted = interrupt.requested
            for callback in self.callbacks:
                callback.end(self)
            for callback in () if interrupted else self.callbacks:
                callback.finish(self)
        self.history.stop_reason = "interrupted" if interrupted else self.stop_reason or "finished"
        if self.history.stop_reason != "finished":
            self._display.note(f"stopped after {self.n_steps} steps: {self.history.stop_reason}")
        return self.history

    def _run_epoch(self, interrupt: Interrupt) -> bool:
        """Run the rest of the current epoch; return whether it is finished."""
        batches, step = self._source.epoch(self._done), self._trained.find_step()
        for callback in self.callbacks:
            step = callback.wrap_step(self, step)
        while True:
            n = self._next_chunk()
            began = time.perf_counter()
            n_run = self._run_chunk(step, islice(batches, n), interrupt)
            seconds = time.perf_counter() - began
            self._seconds += seconds
            seconds = self._agree(seconds, interrupt)
            if interrupt.requested:
                return False
            if n_run < n:
                return True
            self._adapt(seconds)
            self._after_chunk()

    def _run_chunk(
        self, step: Callable[..., Sequence[Any]], batches: Iterable[Any], interrupt: Interrupt
    ) -> int:
        # The hot loop; everything else is done once per chunk, after its last step.
        count_rows = self._source.count_rows
        values: list[Sequence[Any]] = []
        rows: list[int] = []
        for feeds in batches:
            values.append(step(**feeds))
            rows.append(count_rows(feeds))
            if interrupt.requested:
                break
        self._totals.add(values, rows)
        self._done += len(values)
        self.n_steps += len(values)
        return len(values)

    def _next_chunk(self) -> int:
        n = self._n_chunk
        for callback in self.callbacks:
            if callback.every_steps is not None:
                n = min(n, callback.every_steps - self.n_steps % callback.every_steps)
        return n

    def _agree(self, seconds: float, interrupt: Interrupt) -> float:
        """Return how long the slowest process took; Ctrl-C in any process interrupts all of them.

        All processes then have chunks of the same length, and stop after the same step. Otherwise
        the processes would wait for each other.
        """
        team = self._trained.team
        if team is None:
            return seconds
        told = team.gather([seconds, interrupt.noted])
        interrupt.requested = any(noted for _, noted in told)
        return float(max(seconds for seconds, _ in told))

    def _adapt(self, seconds: float) -> None:
        if seconds < _CHUNK_S / 2:
            self._n_chunk = min(2 * self._n_chunk, _MAX_CHUNK)
        elif seconds > 2 * _CHUNK_S:
            self._n_chunk = max(self._n_chunk // 2, 1)

    def _after_chunk(self) -> None:
        for callback in self.callbacks:
            if callback.every_steps is not None and self.n_steps % callback.every_steps == 0:
                callback.after_steps(self)
        if self._display.is_due:
            record = {**self._totals.means(), **self._speed(self._totals)}
            self._display.update(self.epoch + 1, self._done, self._source.per_epoch, record)

    def _speed(self, totals: Totals) -> dict[str, float]:
        return {
            "seconds": self._seconds,
            "samples_per_second": totals.rows / self._seconds if self._seconds else 0.0,
        }

    def _join_totals(self) -> Totals:
        team = self._trained.team
        return self._totals if team is None else self._totals.join(team)

    def _end_epoch(self) -> None:
        record: dict[str, float] = {"epoch": self.epoch + 1, "steps": self.n_steps}
        totals = self._join_totals()
        record |= totals.means()
        record |= {} if self._evaluate is None else self._evaluate()
        rate = self.learning_rate
        record |= {} if rate is None else {"learning_rate": rate}
        record |= self._speed(totals)
        self.history.add(record)
        self.epoch += 1
        self._done, self._seconds = 0, 0.0
        self._totals = Totals(self._trained.names)
        self._display.add(record)
        for callback in self.callbacks:
            callback.after_epoch(self, record)


def _restore_callback(name: str, callback: Callback, state: Mapping[str, Any]) -> None:
    """Restore a callback; FormatError if it fails, because its state comes from a file."""
    try:
        callback.restore(state)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        got = str(error) if isinstance(error, FormatError) else repr(error)
        raise FormatError(f"callbacks.{name} must be a result of its state(), got {got}") from error
