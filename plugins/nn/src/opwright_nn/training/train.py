"""train: trains a model, or any step, over epochs of batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from functools import partial
from typing import ParamSpec

import numpy as np

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_nn import arguments, checks
from opwright_nn.model import Model
from opwright_nn.model.feeds import convert_named
from opwright_nn.model.loaded import make_model
from opwright_nn.optimizer import Optimizer
from opwright_nn.parallel import Team
from opwright_nn.training.callback import Callback
from opwright_nn.training.checkpointing import Checkpoint
from opwright_nn.training.display import Display
from opwright_nn.training.evaluation import Metrics
from opwright_nn.training.history import History
from opwright_nn.training.preparation import (
    Setup,
    Step,
    check_shared,
    feed_names,
    find_team,
    prepare_model,
    prepare_step,
)
from opwright_nn.training.source import Data, are_arrays, make_source

P = ParamSpec("P")


def _take_one_argument_of_data(function: Callable[P, History]) -> Callable[P, History]:
    """Make a function explain `data` if two arrays are passed, as other frameworks expect."""

    @functools.wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> History:
        if len(args) > 2 and isinstance(args[2], np.ndarray | list | tuple):
            raise AttributeTypeError(
                "train: data must be one argument, got a second one after it; write "
                "nn.train(model, (x, y), epochs=10)"
            )
        return function(*args, **options)

    return checked


@_take_one_argument_of_data
@arguments.suggest
def train(
    model: Model | Step | ow.LoadedProgram,
    data: Data,
    epochs: int,
    *,
    loss: ow.Variable | str | None = None,
    optimizer: Optimizer | str | None = None,
    batch_size: int | None = None,
    validation: Data | None = None,
    metrics: Metrics | None = None,
    callbacks: Iterable[Callback] = (),
    resume: str | None = None,
    seed: int | None = None,
    shuffle: bool | None = None,
    progress: bool = True,
) -> History:
    """Train for a number of epochs; return a row of numbers for each epoch.

    ::

        history = nn.train(model, train, epochs=20, batch_size=64, validation=test)

    Ctrl-C ends training after the current step, with everything saved; the history is returned with
    ``stop_reason="interrupted"``. A second Ctrl-C ends training at once. Several processes that
    train together end after the same step, soon after one of them receives Ctrl-C.

    Parameters
    ----------
    model : Model, LoadedProgram or callable
        A model with a loss and usually an optimizer; or the result of `opwright.load`; or a step:
        the result of ``Network.compile``, or a function ``step(**feeds)`` that returns the loss
        or a list that begins with it.
    data : arrays, Batches, iterable or callable
        Arrays [n, …], as a tuple in the order in which the model's inputs were declared, or as a
        dict by their names. Or batches, each such a tuple or dict: from `nn.batches`, from an
        iterable, or from a function that returns one for each epoch. Processes that train together,
        see `DataParallel`, share each batch of arrays; batches are made with ``shard="world"``.
    epochs : int, at least 0
        The number of epochs; for resumed training, the total including earlier epochs.
    loss : Variable or str, optional
        For a loaded program, where it is required: a scalar variable of its program.
    optimizer : Optimizer or str, optional
        For a loaded program that was saved without updates: the optimizer that appends them. Later
        calls of the loaded program compute with the trained parameters.
    batch_size : int, at least 1
        For arrays: rows in a batch, 32 by default.
    validation : arrays, Batches, iterable or callable, optional
        Data on which loss and metrics are computed after each epoch, without dropout and update.
    metrics : mapping of str to Metric, Variable or str, optional
        Computed after each epoch on the validation data if given, otherwise on `data`. Variables
        must be scalars for a batch.
    callbacks : iterable of Callback
        `EarlyStopping`, `Plateau`, `Checkpoint`, `TensorBoard`, or your own.
    resume : str, optional
        "latest" continues from the newest checkpoint in the folder of the callback `Checkpoint`,
        bitwise as if training had not been interrupted; if there is no checkpoint, it begins anew.
    seed : int, at least 0
        For arrays: the seed of the row order, 0 by default. Parameters and dropout use the seed of
        `Model.initialize_parameters`.
    shuffle : bool
        For arrays: False preserves the order of the rows; True by default.
    progress : bool
        Whether lines on standard error report losses, metrics and samples per second.

    Returns
    -------
    History
        A row for each epoch, including epochs before an interruption.

    Raises
    ------
    AttributeTypeError, AttributeValueError, FeedError, ProgramError
        Raised before the first step if arguments are inconsistent.

    Warns
    -----
    RuntimeWarning
        The newest checkpoint is damaged, and an older checkpoint is used.
    """
    model = _as_model(model, loss, optimizer)
    epochs = checks.check_int("train", "epochs", epochs, at_least=0)
    listed = _check_callbacks(callbacks)
    names = feed_names(model)
    options: dict[str, object] = {"size": batch_size, "seed": seed, "shuffle": shuffle}
    team = find_team(model, listed)
    if team is not None and are_arrays(data):
        options["shard"] = team.group
    convert = None
    if isinstance(model, Model):
        convert = partial(convert_named, model.program, model._cast)
    held_out = None
    if validation is not None:
        fixed = {"size": batch_size, "shuffle": False} if are_arrays(validation) else {}
        held_out = make_source("train: validation", validation, names, 1, fixed, convert)
    setup = Setup(
        make_source("train", data, names, epochs, options, convert),
        held_out,
        metrics,
        epochs,
        listed,
        _find_saver(listed, resume),
        Display(epochs, _is_shown(progress, team)),
        team,
    )
    check_shared(setup.source, team)
    if isinstance(model, Model):
        return prepare_model(model, setup).run()
    return prepare_step(model, setup).run()


def _as_model(
    model: Model | Step | ow.LoadedProgram,
    loss: ow.Variable | str | None,
    optimizer: Optimizer | str | None,
) -> Model | Step:
    """Return a model for a loaded program; return anything else unchanged."""
    if isinstance(model, ow.LoadedProgram):
        return make_model("train", model, loss, optimizer)
    for name, value in (("loss", loss), ("optimizer", optimizer)):
        if value is not None:
            raise AttributeValueError(
                f"train: {name} applies only to a loaded program, got {value!r} with a "
                f"{type(model).__name__}; call model.minimize(loss, optimizer) first"
            )
    return model


def _is_shown(progress: object, team: Team | None) -> bool:
    """Return whether this process reports progress; only the first of several processes does."""
    return checks.check_bool("train", "progress", progress) and (team is None or team.rank == 0)


def _check_callbacks(callbacks: object) -> list[Callback]:
    items = [callbacks] if isinstance(callbacks, Callback) else callbacks
    if not checks.is_listed(items):
        raise AttributeTypeError(
            f"train: callbacks must be a list of callbacks, got {callbacks!r}; write "
            "callbacks=[nn.EarlyStopping(patience=3)]"
        )
    listed = list(items)
    for position, callback in enumerate(listed):
        checks.check_instance("train", f"callbacks[{position}]", callback, Callback, required=True)
    return listed


def _find_saver(callbacks: Iterable[Callback], resume: str | None) -> Checkpoint | None:
    """Return the callback to resume from, or None if training starts anew."""
    if resume is None:
        return None
    checks.check_choice("train", "resume", resume, ("latest",))
    for callback in callbacks:
        if isinstance(callback, Checkpoint):
            return callback
    raise AttributeValueError(
        "train: resume needs the callback Checkpoint, whose folder it reads, got none; write "
        'callbacks=[nn.Checkpoint("folder")]'
    )
