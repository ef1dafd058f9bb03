"""Model: layers, a loss and an optimizer, trained by one compiled call per step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import AttributeTypeError, FeedError, ProgramError
from opwright.plugin import find_nearest
from opwright_nn import arguments, checks
from opwright_nn.foreign_names import METHODS, describe_missing, find_operator
from opwright_nn.layers.inputs import Input
from opwright_nn.model.copies import model_state, restore_model
from opwright_nn.model.feeds import check_inputs, convert_feed, find_fillable
from opwright_nn.model.inference import computed_names, input_names
from opwright_nn.model.layer_plot import plot_program
from opwright_nn.model.predictor import Predictor, check_options
from opwright_nn.model.startup import Startup
from opwright_nn.model.trained_parameters import TrainedParameters
from opwright_nn.model.training_methods import ModelTraining
from opwright_nn.optimizer import Accumulate, Optimizer
from opwright_nn.parallel import DataParallel, check_data_parallel, find_team
from opwright_nn.precision import MixedPrecision, check_policy

if TYPE_CHECKING:
    from opwright_kit.drawing import LayerDrawing

Array = npt.NDArray[Any]
Step = Callable[..., list[Array]]


class Model(ModelTraining):
    """A network that is built layer by layer and trained one batch at a time.

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

    A new name declares an input: float32, int64 for classes, indices and lengths, bool for masks
    and conditions. The shape of an input, and with it the shapes of parameters that depend on it,
    comes from the first batch or from `initialize_parameters`; the first axis is the batch and may
    change. Each function in `layers` has a method here, ``model.relu("img")``, and accepts names
    itself within ``with model:``.

    A model may be pickled and copied: the copy has the same programs, its own scope with the same
    parameters and states, and no data in its inputs.

    Parameters
    ----------
    scope : Scope, optional
        The scope of the parameters; a new scope by default, so two models never share them by
        accident.
    device : str
        The device on which steps and predictions run.
    fallback : str, optional
        ``"cpu"`` runs operators without a kernel for the device on the host.
    deterministic : bool, optional
        Whether steps are bitwise identical with any number of threads, see ``Network.compile``.
    mixed_precision : str or MixedPrecision, optional
        "bfloat16" or "float16", or a result of `nn.mixed_precision`: layers compute in 16 bits,
        with parameters in float32.
    data_parallel : bool, str or DataParallel, optional
        True trains the model in all processes that a launcher has started, each with its shard of
        the batch; a str, in the processes of a group. Gradients are averaged; all begin with the
        parameters of the first process. `run` returns the results of this process's shard.

    cast : bool
        Feeds are converted to the dtype of their input if it can represent all values of the feed's
        dtype: uint8 becomes float32. True also converts feeds of all other numeric dtypes, such as
        float64; a number that does not fit raises an error.

    Attributes
    ----------
    program, startup_program : Program
        The programs of a step, and of the initialization before the first one.
    network : Network
        The operators of `program`; each step also runs operators added by ``network.add_op``.
    scope : Scope
        The parameters and states; after ``run(keep=True)`` every variable.
    param_grads : list of (Variable, Variable)
        Each parameter with its gradient, after `backward`.
    optimizer : Optimizer or None
        The optimizer that `sgd`, `adam`, `optimize` and so on appended.
    """

    @arguments.suggest
    def __init__(
        self,
        scope: ow.Scope | None = None,
        device: str = "cpu",
        fallback: str | None = None,
        deterministic: bool | None = None,
        mixed_precision: str | MixedPrecision | None = None,
        data_parallel: bool | str | DataParallel | None = None,
        cast: bool = False,
    ) -> None:
        super().__init__(check_policy("Model", mixed_precision))
        checks.check_instance("Model", "scope", scope, ow.Scope)
        self._options = check_options("Model", device, fallback, deterministic)
        self._cast = checks.check_bool("Model", "cast", cast)
        self._parallel = check_data_parallel("Model", data_parallel)
        self.param_grads: list[tuple[ow.Variable, ow.Variable]] = []
        self.optimizer: Optimizer | None = None
        self._trained = TrainedParameters(self.program)
        self._begin(ow.Scope() if scope is None else scope)

    def _begin(self, scope: ow.Scope) -> None:
        # The state that belongs to this process and is not copied.
        self.scope = scope
        self.network = ow.Network(self.program.global_block())
        self._startup = Startup(self.program, self.startup_program, scope, self._deferred)
        self._guards = []
        self._feeds: dict[str, Any] = {}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._step: Any = None
        self._generation = -1
        self._steps: dict[tuple[str, ...], Step] = {}
        self._predictors: dict[tuple[tuple[str, ...], frozenset[str]], Predictor] = {}

    __getstate__ = model_state
    __setstate__ = restore_model

    if not TYPE_CHECKING:  # type checkers should report an unknown name

        def __getattr__(self, name: str) -> object:
            """Raise an AttributeError that suggests a name, also for other frameworks' methods."""
            foreign = METHODS.get(name) or find_operator(name)
            raise AttributeError(describe_missing("Model", name, foreign, dir(type(self))))

    @property
    def parameters(self) -> list[ow.Variable]:
        """All parameters, in the order in which layers created them."""
        return list(self.program.parameters())

    def __repr__(self) -> str:
        block = self.program.global_block()
        inputs = [block.var(name) for name in input_names(self.program)]
        described = ", ".join(f"{v.name} {v.type_text.removesuffix('[...]')}" for v in inputs)
        optimizer = "none" if self.optimizer is None else type(self.optimizer).__name__
        return (
            f"Model(inputs: {described or 'none'}; parameters: {len(self.parameters)}; "
            f"operators: {len(block.ops)}; loss: {self._loss or 'none'}; optimizer: {optimizer})"
        )

    def plot(self) -> LayerDrawing:
        """Return a drawing of the layers, like `nn.plot`: ``model.plot().save("net.svg")``.

        Raises
        ------
        MissingRequirementError
            opwright-kit, which draws, is not installed.
        ProgramError
            There is no layer.
        """
        return plot_program(self.program)

    # -- Parameters ----------------------------------------------------------------------------

    def initialize_parameters(self, seed: int | None = None, **example_feeds: Any) -> None:
        """Initialize all parameters and optimizer states, even if they have values.

        If an input has no shape yet and no example provides it, the next `run` or `predict`
        initializes the parameters. Without this call, `run` initializes the parameters that have no
        value, with the same numbers as ``initialize_parameters()``.

        Parameters
        ----------
        seed : int, at least 0
            The seed of the initial values and of random numbers in later steps. None uses the seeds
            of the programs, initially 0: every run of a script starts from the same numbers.
        **example_feeds
            Arrays that provide shapes: ``initialize_parameters(img=train.images)``.
        """
        who = "Model.initialize_parameters"
        examples = check_inputs(who, self.program, example_feeds, self._cast)
        if seed is not None:
            number = checks.check_int(who, "seed", seed, at_least=0)
            self.program.seed = self.startup_program.seed = number
        self._startup.settle(examples, partly=True)
        self._startup.request_all()
        self._startup.initialize()

    # -- Running -------------------------------------------------------------------------------

    def fill(self, name: str, data: Any) -> None:
        """Set the data of an input for later steps, or the value of a parameter.

        Parameters
        ----------
        name : str
            An input, or a parameter.
        data : array
            An array of the input's dtype, or convertible to it, see `cast` of the model. An array
            of that dtype is borrowed, and must not change until the last step that reads it.
        """
        dtype = self._dtypes.get(name) if type(name) is str else None
        if dtype is not None and type(data) is np.ndarray and data.dtype == dtype:
            self._feeds[name] = data
            return
        variable = find_fillable("Model.fill", self.program, name)
        array = convert_feed("Model.fill", data, variable, self._cast)
        if variable.persistable:
            self._startup.write("Model.fill", name, array)
            return
        self._feeds[name] = array
        if isinstance(array, np.ndarray):
            self._dtypes[name] = array.dtype

    def run(self, keep: bool = False, fetch: Iterable[Input] | None = None) -> list[Array]:
        """Run one step: forward, backward and update.

        Parameters
        ----------
        keep : bool
            True stores every variable in `scope`, for inspection; slower.
        fetch : iterable of Variable or str, optional
            The variables to return, as this step computes them.

        Returns
        -------
        list of ndarray
            The variables of `fetch`; by default the loss, if there is one, and each of several
            losses, then the output of each `accuracy`, in the order of calls.
        """
        if self._generation == self.program.generation and keep is False:
            if fetch is None and self._step is not None:
                return self._step(**self._feeds)  # type: ignore[no-any-return]
            names = None if fetch is None else self._get_names("Model.run", "fetch", fetch)
            if names in self._steps:
                return self._steps[names](**self._feeds)
        return self._compile_and_run(checks.check_bool("Model.run", "keep", keep), fetch)

    @overload
    def predict(self, variable: Input, /, **feeds: Any) -> Array: ...
    @overload
    def predict(self, variable: Sequence[Input], /, **feeds: Any) -> list[Array]: ...
    @arguments.suggest
    def predict(self, variable: Input | Sequence[Input], /, **feeds: Any) -> Array | list[Array]:
        """Compute variables for inference, without loss, updates or dropout.

        `scope` does not change; parameters and states are read from it. Gradients are
        computed only if `variable` is a gradient or depends on one; random numbers are drawn as
        in the next step.

        Parameters
        ----------
        variable : Variable or str, or list of these
            The variables to compute, such as the output of the last layer.
        **feeds
            Arrays for the inputs that it depends on; labels are not needed. A variable that the
            network computes may also be fed: its operators do not run, and their inputs are not
            needed. ``model.predict(image, code_out=codes)`` decodes.

        Returns
        -------
        ndarray, or list of ndarray
            One array for each variable.
        """
        who, is_single = "Model.predict", isinstance(variable, ow.Variable | str)
        if isinstance(variable, np.ndarray):
            raise AttributeTypeError(
                f"{who}: variable must be a variable or its name, got an array "
                f"{list(variable.shape)}; pass arrays by the names of inputs: "
                "model.predict(scores, img=images)"
            )
        names = self._get_names(who, "variable", [variable] if is_single else variable)
        predictor = self._predictors.get((names, frozenset(feeds)))
        if predictor is None or predictor.generation != self.program.generation:
            predictor = self._make_predictor(names, feeds)
        predictor.check_feeds(feeds)
        values = predictor(feeds)
        return values[0] if is_single else values

    def _compile_and_run(self, keep: bool, fetch: Iterable[Input] | None) -> list[Array]:
        # Runs in the first step, and in the first step after each change of the program.
        chosen = None if fetch is None else self._get_names("Model.run", "fetch", fetch)
        fetches = self._fetches() if chosen is None else list(chosen)
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
                nearest = find_nearest(name, computed_names(self.program))
                hint = f"; no layer writes it; did you mean {nearest!r}?" if nearest else ""
                raise FeedError(
                    f"Model.run: every input must be filled, got no value for {name!r}; call "
                    f"model.fill({name!r}, array){hint}"
                )
        self._begin_step("Model.run", self._feeds)
        if keep:
            return self._run_kept(inputs, fetches)
        if self._generation != self.program.generation:
            self._generation = self.program.generation
            self._step = None
            self._steps.clear()
        step = self._compile(inputs, fetches)
        if chosen is None:
            self._step = step
        else:
            self._steps[chosen] = step
        return step(**self._feeds)

    @arguments.suggest
    def compile_step(self, example_feeds: Mapping[str, Any], fetch: Iterable[Input] = ()) -> Step:
        """Return the training step as a function: ``step(img=images, label=labels) -> list``.

        A loop that calls the result instead of `fill` and `run` saves a microsecond per step.
        Parameters without a value are initialized.

        Parameters
        ----------
        example_feeds : mapping of str to array
            A batch, which provides the shapes still unknown to the model.
        fetch : iterable of Variable or str
            Variables that are returned after the results of `run`.
        """
        return self._compile_step("Model.compile_step", example_feeds, fetch)

    def _compile_step(
        self, who: str, example_feeds: Mapping[str, Any], fetch: Iterable[Input] = ()
    ) -> Step:
        examples = check_inputs(who, self.program, example_feeds, self._cast)
        more = self._get_names(who, "fetch", fetch)
        if self.optimizer is not None:
            self._trained.check_unchanged(who)
        self._begin_step(who, examples)
        return self._compile(input_names(self.program), [*self._fetches(), *more])

    def _begin_step(self, who: str, examples: Mapping[str, Any]) -> None:
        """Initialize variables without a value, and synchronize processes that train together."""
        self._startup.settle(examples)
        self._startup.initialize()
        if self._parallel is not None and self._startup.take_change():
            team = find_team(who, self._parallel.group)
            device = self._options.device
            self.program.seed = team.gather(self.program.seed)[0]
            team.processes.broadcast_state(self.program, self.scope, team.group, device=device)

    def run_options(self) -> dict[str, Any]:
        """Return device, fallback and determinism as arguments of ``Network.compile``."""
        return self._options._asdict()

    def _compile(self, inputs: list[str], fetches: list[str]) -> Step:
        options = self.run_options()
        if isinstance(self.optimizer, Accumulate):
            return self.optimizer.compile(self.program, inputs, fetches, self.scope, **options)
        return self.network.compile(feed=inputs, fetch=fetches, scope=self.scope, **options)

    def _run_kept(self, inputs: list[str], fetches: list[str]) -> list[Array]:
        for name in inputs:
            self.scope.var(name).set(self._feeds[name])
        self.network.run(self.scope, **self._options._asdict())
        return [self.scope.var(name).numpy() for name in fetches]

    def _make_predictor(self, names: tuple[str, ...], feeds: dict[str, Any]) -> Predictor:
        given = computed_names(self.program).intersection(feeds)
        draft = self._predictor(names, given)
        draft.check_feeds(feeds)
        if not self._startup.requested:
            self._startup.check_initialized("Model.predict", draft.program)
        entered = {name: data for name, data in feeds.items() if name not in given}
        entered = check_inputs("Model.predict", self.program, entered, self._cast)
        self._startup.settle(entered, partly=True)
        if self._startup.requested:
            self._startup.initialize()
        # The program is compiled a second time, since it may have received its shapes in between.
        predictor = self._predictor(names, given)
        self._startup.check_initialized("Model.predict", predictor.program)
        self._predictors[names, frozenset(feeds)] = predictor
        return predictor

    def _predictor(self, names: tuple[str, ...], given: Iterable[str]) -> Predictor:
        return Predictor(self.program, names, self.scope, self._options, given, self._cast)
