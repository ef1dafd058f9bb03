"""Model: a network, its parameters and one training step, in the style of the seeds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import AttributeValueError, FeedError, ProgramError
from opwright.op import dtype_to_numpy
from opwright.plugin import record_undo as record

from . import checks
from .clip import GradientClip
from .feeding import check_feed, find_fillable
from .inference import input_names
from .model_copies import model_state, restore_model
from .model_files import ModelFiles
from .model_layers import Input
from .optimizer import SGD, Adam, AdamW, Momentum, Optimizer, make_optimizer
from .predictor import Predictor
from .regularizer import Regularizer
from .running import check_running
from .startup import Startup
from .trained import TrainedParameters

Array = npt.NDArray[Any]


class Model(ModelFiles):
    """Layers, a loss and an optimizer, run as one compiled step.

    ::

        model = Model()
        prob = model.fc_layer(input="img", size=10, activation="softmax")
        loss = model.mean(input=model.cross_entropy(input=prob, label="label"))
        model.backward(loss)
        model.sgd(learning_rate=0.1)
        model.initialize_parameters(seed=1)
        model.fill("img", images)
        model.fill("label", labels)
        (value,) = model.run()

    An input is made by naming it. Its shape, and with it the shape of what hangs on it, is told by
    the first batch, or by `initialize_parameters`; the first axis is the batch and may change.

    A model may be pickled and copied: the copy has the same programs, a scope of its own with the
    same parameters and states, and nothing filled into its inputs.

    Parameters
    ----------
    scope : Scope, optional
        Holds the parameters; a new one by default, so that two models never share by accident.
    device : str
        Where steps and predictions run.
    fallback : str, optional
        ``"cpu"`` lets operators without a kernel for the device run on the host.
    deterministic : bool, optional
        Whether steps have the same bits with any number of threads, see ``Network.compile``.

    Attributes
    ----------
    program, startup_program : Program
        What a step computes, and what fills the parameters before the first one.
    network : Network
        The operators of `program`. Those that ``network.add_op`` adds run with each step.
    scope : Scope
        The parameters and what else lasts; after ``run(keep=True)`` every variable.
    param_grads : list of (Variable, Variable)
        Each parameter with its gradient, once `backward` was called.
    optimizer : Optimizer or None
        What `sgd` and its kin set.
    """

    def __init__(
        self,
        scope: ow.Scope | None = None,
        device: str = "cpu",
        fallback: str | None = None,
        deterministic: bool | None = None,
    ) -> None:
        super().__init__()
        checks.check_instance("Model", "scope", scope, ow.Scope)
        self._running = check_running("Model", device, fallback, deterministic)
        self.param_grads: list[tuple[ow.Variable, ow.Variable]] = []
        self.optimizer: Optimizer | None = None
        self._trained = TrainedParameters(self.program)
        self._loss: str | None = None
        self._begin(ow.Scope() if scope is None else scope)

    def _begin(self, scope: ow.Scope) -> None:
        # What belongs to this process, and is no part of a copy.
        self.scope = scope
        self.network = ow.Network(self.program.global_block())
        self._startup = Startup(self.program, self.startup_program, scope, self._deferred)
        self._feeds: dict[str, Any] = {}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._step: Any = None
        self._generation = -1
        self._predictors: dict[str, Predictor] = {}

    __getstate__ = model_state
    __setstate__ = restore_model

    @property
    def parameters(self) -> list[ow.Variable]:
        """All parameters, in the order in which they were made."""
        return list(self.program.parameters())

    # -- Training ------------------------------------------------------------------------------

    def backward(self, loss: Input) -> list[tuple[ow.Variable, ow.Variable]]:
        """Append the gradients of `loss`; from now on `run` returns it first.

        Parameters
        ----------
        loss : Variable or str
            A single number for the batch, as `mean` gives it.

        Returns
        -------
        list of (Variable, Variable)
            Each parameter with its gradient.
        """
        if self._loss is not None:
            raise ProgramError(
                f"Model.backward: a model has one loss, got a second one beside {self._loss!r}; "
                "add the losses up first"
            )
        variable = self._get_variable("Model.backward", loss)
        with self._building():
            pairs = ow.append_backward(variable)
        self._set("param_grads", pairs)
        self._set("_loss", variable.name)
        self._trained.note_flags()
        return self.param_grads

    def optimize(
        self,
        optimizer: Optimizer | str,
        parameters: Iterable[ow.Variable | str] | None = None,
        **attrs: Any,
    ) -> Optimizer:
        """Append the updates of the parameters, behind `backward`.

        Parameters
        ----------
        optimizer : Optimizer or str
            One of `nn.optimizer`, or the type of one: "sgd", "momentum", "adam", "adamw".
        parameters : iterable of Variable or str, optional
            What is trained; by default every parameter that has a gradient and is trainable.
        **attrs
            With a type, the arguments of its class.

        Raises
        ------
        ProgramError
            There is no gradient yet; there is an optimizer already, which would update twice.
        """
        who = "Model.optimize"
        if isinstance(optimizer, str):
            optimizer = make_optimizer(optimizer, attrs)
        elif attrs:
            raise AttributeValueError(
                f"{who}: attributes go with the type of an optimizer, got {next(iter(attrs))!r} "
                f"beside {type(optimizer).__name__}; give them to its class"
            )
        checks.check_instance(who, "optimizer", optimizer, Optimizer, required=True)
        if self._loss is None:
            raise ProgramError(
                f"{who}: the gradients must exist, got no backward yet; call "
                "model.backward(loss) first"
            )
        if self.optimizer is not None:
            raise ProgramError(
                f"{who}: a model has one optimizer, got {type(optimizer).__name__} beside "
                f"{type(self.optimizer).__name__}; set_learning_rate changes its rate, another one "
                "needs another model"
            )
        pairs = self._trained.choose(who, self.param_grads, parameters)
        with self._building():
            optimizer.apply_gradients(pairs)
        self._trained.note_flags()
        self._set("optimizer", optimizer)
        return optimizer

    def sgd(
        self,
        learning_rate: float = 0.01,
        *,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> Optimizer:
        """Append gradient descent, see `optimizer.SGD`."""
        return self.optimize(SGD(learning_rate, regularizer=regularizer, clip=clip))

    def momentum(self, learning_rate: float = 0.01, mu: float = 0.9, **options: Any) -> Optimizer:
        """Append gradient descent with momentum, see `optimizer.Momentum`."""
        return self.optimize(Momentum(learning_rate, mu, **options))

    def adam(self, learning_rate: float = 0.001, **options: Any) -> Optimizer:
        """Append Adam, see `optimizer.Adam`."""
        return self.optimize(Adam(learning_rate, **options))

    def adamw(self, learning_rate: float = 0.001, **options: Any) -> Optimizer:
        """Append AdamW, see `optimizer.AdamW`."""
        return self.optimize(AdamW(learning_rate, **options))

    def set_learning_rate(self, value: float) -> None:
        """Change the learning rate of the steps to come; the parameters must be initialized."""
        if self.optimizer is None:
            raise ProgramError(
                "Model.set_learning_rate: there must be an optimizer, got none yet; call "
                "model.sgd() or another one first"
            )
        self.optimizer.set_learning_rate(self.scope, value)

    # -- Parameters ----------------------------------------------------------------------------

    def initialize_parameters(self, seed: int | None = None, **example_feeds: Any) -> None:
        """Fill all parameters and optimizer states anew.

        Where the shape of an input is not known and no example tells it, this is done by the next
        `run` or `predict`. Without any call `run` fills what has no value yet, with the same
        numbers as ``initialize_parameters()``.

        Parameters
        ----------
        seed : int, at least 0
            Of these random numbers and of those in later steps. None leaves the programs' seeds as
            they are, 0 at first: every run of a script starts from the same numbers.
        **example_feeds
            Arrays of which the shapes are taken: ``initialize_parameters(img=train.images)``.
        """
        who = "Model.initialize_parameters"
        examples = self._check_inputs(who, example_feeds)
        if seed is not None:
            number = checks.check_int(who, "seed", seed, at_least=0)
            self.program.seed = self.startup_program.seed = number
        self._startup.settle(examples, partly=True)
        self._startup.request_all()
        self._startup.initialize()

    # -- Running -------------------------------------------------------------------------------

    def fill(self, name: str, data: Any) -> None:
        """Set what an input holds in the steps to come; a parameter is written at once.

        Parameters
        ----------
        name : str
            An input, or a parameter.
        data : array
            With the input's dtype; lists take it on. Borrowed, not copied: it must not change until
            the last step that reads it.
        """
        dtype = self._dtypes.get(name)
        if dtype is not None and type(data) is np.ndarray and data.dtype == dtype:
            self._feeds[name] = data
            return
        variable = find_fillable("Model.fill", self.program, name)
        array = check_feed("Model.fill", variable, data)
        if variable.persistable:
            self._startup.write("Model.fill", name, array)
            return
        self._feeds[name] = array
        self._dtypes[name] = dtype_to_numpy(variable.dtype)

    def run(self, keep: bool = False) -> list[Array]:
        """Run one step: forward, backward, update and whatever was added.

        Parameters
        ----------
        keep : bool
            True leaves every variable in `scope`, to be looked at; slower.

        Returns
        -------
        list of ndarray
            The loss, if there is one, then each `accuracy` in the order of calls.
        """
        if self._step is not None and keep is False and self._generation == self.program.generation:
            return self._step(**self._feeds)  # type: ignore[no-any-return]
        return self._run_anew(checks.check_bool("Model.run", "keep", keep))

    def predict(self, variable: Input, /, **feeds: Any) -> Array:
        """Compute one variable for inference: no loss, no update, no dropout.

        Nothing in `scope` changes. A parameter or state is as it is there. Gradients are computed
        only where one is asked for, and random numbers are those that the next step would draw.

        Parameters
        ----------
        variable : Variable or str
            What to compute, such as the last layer's output.
        **feeds
            The inputs that it depends on; labels are not needed.
        """
        name = self._get_variable("Model.predict", variable).name
        found = self._predictors.get(name)
        if found is None or found.generation != self.program.generation:
            found = self._make_predictor(name, feeds)
        found.check_feeds(feeds)
        return found(feeds)

    def _run_anew(self, keep: bool) -> list[Array]:
        # Whatever the program was changed to since the last compiled step, this makes it run.
        fetches = self._fetches()
        if not fetches:
            raise ProgramError(
                "Model.run: there must be something to return, got neither loss nor metric; call "
                "model.backward(loss), model.accuracy(...) or predict(variable, ...)"
            )
        if self.optimizer is not None:
            self._trained.check_unchanged("Model.run")
        inputs = input_names(self.program)
        for name in inputs:
            if name not in self._feeds:
                raise FeedError(
                    f"Model.run: every input must be filled, got no value for {name!r}; call "
                    f"model.fill({name!r}, array)"
                )
        self._startup.settle(self._feeds)
        self._startup.initialize()
        if keep:
            return self._run_kept(inputs, fetches)
        self._step = self.network.compile(
            feed=inputs, fetch=fetches, scope=self.scope, **self._running._asdict()
        )
        self._generation = self.program.generation
        return self._step(**self._feeds)  # type: ignore[no-any-return]

    def _run_kept(self, inputs: list[str], fetches: list[str]) -> list[Array]:
        for name in inputs:
            self.scope.var(name).set(self._feeds[name])
        self.network.run(self.scope, **self._running._asdict())
        return [self.scope.var(name).numpy() for name in fetches]

    def _make_predictor(self, name: str, feeds: dict[str, Any]) -> Predictor:
        examples = self._predictor(name)
        examples.check_feeds(feeds)
        if not self._startup.requested:
            self._startup.check_initialized("Model.predict", examples.program)
        self._startup.settle(self._check_inputs("Model.predict", feeds), partly=True)
        if self._startup.requested:
            self._startup.initialize()
        # Made anew: the shapes of the program may have been settled since.
        found = self._predictor(name)
        self._startup.check_initialized("Model.predict", found.program)
        self._predictors[name] = found
        return found

    def _predictor(self, name: str) -> Predictor:
        return Predictor(self.program, name, self.scope, self._running)

    def _check_inputs(self, who: str, feeds: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, data in feeds.items():
            variable = find_fillable(who, self.program, name, persistables=False)
            found[name] = check_feed(who, variable, data)
        return found

    def _fetches(self) -> list[str]:
        return [*([] if self._loss is None else [self._loss]), *self._metrics]

    def _set(self, attribute: str, value: object) -> None:
        # A transaction around the call may still take it back.
        record(setattr, self, attribute, getattr(self, attribute))
        setattr(self, attribute, value)

    def _get_variable(self, who: str, given: Input) -> ow.Variable:
        if isinstance(given, str):
            return self.program.global_block().get_var(given, who)
        return checks.check_variable(who, "variable", given)
