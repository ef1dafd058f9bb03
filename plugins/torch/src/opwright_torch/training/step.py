"""`train_step`, which turns a PyTorch model, loss and optimizer into one function of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from traceback import format_list
from types import FunctionType
from typing import Any, Final

import torch
from torch._dynamo.exc import BackendCompilerFailed, Unsupported, UserError
from torch.utils._pytree import tree_leaves

import opwright as ow
from opwright.errors import OpwrightError, SettingError
from opwright.plugin import suggest_arguments
from opwright_torch.capture import Captured, capture
from opwright_torch.dtypes import dtype_name
from opwright_torch.plans.building import make_job
from opwright_torch.plans.forward import check_options
from opwright_torch.plans.region import Region
from opwright_torch.training.plan import StepPlan
from opwright_torch.training.rules import RULES, Rule, find_rule
from opwright_torch.training.scaling import Scaling
from opwright_torch.training.state import State
from opwright_torch.training.trainer import Trainer
from opwright_torch.training.updating import Way, find_processes

Loss = Callable[[Any, Any], torch.Tensor]
WORLD: Final = "world"
"""The group of all processes."""

_NO_LOSS: Final = (
    "train_step: the loss must be one number that depends on a parameter with "
    "requires_grad, got none; return a mean or a sum (with loss=None as a tensor, or as "
    "the attribute or key 'loss'), and unfreeze a parameter"
)
_NUMBERS: Final[Iterator[int]] = count()


class TrainStep:
    """The result of `train_step`; ``step(*batch)`` trains on a batch and returns the loss.

    Attributes
    ----------
    optimizer : torch.optim.Optimizer
    trainer : Trainer
    compiled : callable
        The result of `torch.compile` that computes a step.
    """

    def __init__(
        self, compute: Callable[..., torch.Tensor], trainer: Trainer, options: Mapping[str, Any]
    ) -> None:
        self.trainer, self._options = trainer, options
        self.optimizer = trainer.state.optimizer
        self.compiled = torch.compile(compute, backend=self._make_region, fullgraph=True)
        self._call: Any = self.compiled
        if any(isinstance(part, torch.nn.RNNBase) for part in trainer.parts):
            self._call = torch._dynamo.config.patch(allow_rnn=True)(self.compiled)

    def __call__(self, *batch: Any, **named: Any) -> torch.Tensor:
        """Train on a batch; return its detached loss.

        Parameters
        ----------
        *batch, **named
            Arguments of the model; if a loss is given, the last positional argument is the target.
        """
        if not torch.is_grad_enabled():
            if torch.is_inference_mode_enabled():
                raise SettingError(
                    "train_step: a step must not run within torch.inference_mode(), got "
                    "such a call; leave the block, or use torch.no_grad() there"
                )
            with torch.enable_grad():
                return self(*batch, **named)
        self.trainer.read()
        try:
            loss: torch.Tensor = self._call(*batch, **named)
        except BackendCompilerFailed as error:
            if isinstance(error.inner_exception, OpwrightError):
                raise error.inner_exception from None
            raise
        except (Unsupported, UserError) as error:
            reason = str(error).strip().splitlines()[0]
            if "bind arguments" in reason:
                raise SettingError(
                    f"train_step: a step must be given the inputs of the model and the target of "
                    f"the loss, got {len(batch)} by position and {list(named)} by name; call "
                    "step(*inputs, target)"
                ) from error
            raise SettingError(
                f"train_step: model and loss must be one graph, got a graph break: {reason}; "
                'train the model in parts with torch.compile(model, backend="opwright")'
                f"{_broken_line(error)}"
            ) from error
        except OpwrightError as error:
            if self.trainer.way.group:
                error.add_note(_batch_note((batch, named)))
            raise
        if loss is None:
            raise SettingError(_NO_LOSS)
        self.optimizer._opt_called = True  # schedulers check whether a step was made
        return loss

    def _make_region(self, module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Region:
        captured = capture(module, example_inputs)
        job = make_job(captured, example_inputs)
        _check_graph(captured)
        if job.loss < 0:
            raise SettingError(_NO_LOSS)
        job = job._replace(written=tuple(sorted({*job.written, *job.trained} & {*job.kept})))
        kind = partial(StepPlan, trainer=self.trainer)
        return Region(captured, job, self._options, kind, self.trainer.state.scope)


def _broken_line(error: Any) -> str:
    """Return the model's source line at which the graph breaks, after a line break."""
    return "".join("\n" + text.rstrip() for text in format_list(error.real_stack[-1:]))


def _batch_note(batch: Any) -> str:
    shapes = [list(x.shape) for x in tree_leaves(batch) if isinstance(x, torch.Tensor)]
    return (
        f"train_step: the batch of this process has the shapes {', '.join(map(str, shapes))}; in "
        "each step the batches of all processes must have equal shapes: drop a smaller last "
        "one with DataLoader(drop_last=True)"
    )


def _check_graph(captured: Captured) -> None:
    """Raise SettingError for a graph with sparse gradients."""
    for node in captured.module.graph.nodes:
        target: Any = node.target
        if not isinstance(target, torch._ops.OpOverload):
            continue
        named = [argument.name for argument in target._schema.arguments]
        if "sparse" in named:
            at = named.index("sparse")
            given = node.kwargs.get("sparse", node.args[at] if at < len(node.args) else False)
            if given and node.meta["requires_grad"]:
                raise SettingError(
                    f"train_step: gradients must be dense, got {target} with sparse=True; "
                    "omit sparse"
                )


@suggest_arguments
def train_step(
    model: torch.nn.Module,
    loss: Loss | None,
    optimizer: torch.optim.Optimizer,
    *,
    accumulate: int = 1,
    clip_norm: float | None = None,
    clip_value: float | None = None,
    scaler: Any = None,
    data_parallel: bool | str = False,
    options: Mapping[str, Any] | None = None,
) -> TrainStep:
    """Return a training step of a PyTorch model, with forward, backward and update in one plan.

    ::

        step = train_step(model, torch.nn.functional.cross_entropy, torch.optim.AdamW(...))
        for images, labels in loader:
            loss = step(images, labels)
            scheduler.step()

    Parameters, buffers and optimizer state remain PyTorch tensors, and plans write into them. The
    ``state_dict`` of the model and of the optimizer are therefore current after each step, and the
    next step reads loaded values.
    Options in ``optimizer.param_groups`` are read at each step. ``.grad`` is neither read nor
    written.

    Parameters
    ----------
    model : torch.nn.Module
        A model on the host, with contiguous float parameters, that `torch.compile` captures as one
        graph.
    loss : callable or None
        ``step(*inputs, target)`` calls ``loss(model(*inputs), target)``. With None, the model
        returns its loss as a tensor, or as the attribute or key ``"loss"``.
    optimizer : torch.optim.Optimizer
        SGD, Adam, AdamW, RMSprop or Adagrad of ``torch.optim``; not a subclass, and without hooks.
    accumulate : int, at least 1
        The number of steps whose mean gradient an update uses.
    clip_norm : float, > 0, optional
        The gradients of all updated parameters are clipped as by
        ``torch.nn.utils.clip_grad_norm_``.
    clip_value : float, > 0, optional
        Gradients are clipped as by ``torch.nn.utils.clip_grad_value_``.
    scaler : torch.amp.GradScaler, optional
        Scales the loss; its factor and skipped steps are part of the plan.
    data_parallel : bool or str
        True or the name of a process group of opwright-dist. Gradients are averaged over its
        processes, and their batches must have equal shapes in each step. All processes call this
        function, and start with the parameters and buffers of the first process.
    options : mapping, optional
        The arguments ``passes``, ``fallback``, ``options``, ``deterministic`` and ``lock`` of
        `opwright.Network.compile`.

    Raises
    ------
    SettingError
        For arguments with an invalid type or range, and for features that plans do not support.
    MissingRequirementError
        If `data_parallel` is given and no installed package connects processes.
    """
    _check_model(model, loss)
    rule = _check_optimizer(optimizer)
    group = _check_group(data_parallel)
    state = State(optimizer, rule)
    way = Way(
        _check_count(accumulate),
        _check_bound("clip_norm", clip_norm),
        _check_bound("clip_value", clip_value),
        _check_scaler(scaler, state),
        group,
    )
    modules = [part for part in (model, loss) if isinstance(part, torch.nn.Module)]
    if group:
        _share(model, group)
    trainer = Trainer(state, way, modules)
    return TrainStep(_make_function(model, loss), trainer, check_options("train_step", options))


def _make_function(model: torch.nn.Module, loss: Loss | None) -> Callable[..., Any]:
    """Return a function with its own code object: Dynamo counts compilations per code object."""

    def compute(*batch: Any, **named: Any) -> Any:
        if loss is None:
            return _own_loss(model(*batch, **named))
        return loss(model(*batch[:-1], **named), batch[-1])

    function: FunctionType = compute  # type: ignore[assignment]
    function.__code__ = function.__code__.replace(co_name=f"train_step_{next(_NUMBERS)}")
    return function


def _own_loss(result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return result
    return result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)


def _check_model(model: Any, loss: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise SettingError(
            f"train_step: model must be a torch.nn.Module, got {type(model).__name__}"
        )
    if isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
        raise SettingError(
            f"train_step: model must not be wrapped, got {type(model).__name__}; pass the inner "
            f"module, and data_parallel=True"
        )
    if loss is not None and not callable(loss):
        raise SettingError(
            f"train_step: loss must be callable or None, got {type(loss).__name__}; write "
            "torch.nn.functional.cross_entropy, for example"
        )


def _check_optimizer(optimizer: Any) -> Rule:
    """Return the rule of an optimizer, or raise SettingError for an unsupported optimizer."""
    rule = find_rule(optimizer)
    if rule is None:
        known = ", ".join(kind.__name__ for kind in RULES)
        raise SettingError(
            f"train_step: optimizer must be one of torch.optim's {known}, got "
            f"{type(optimizer).__module__}.{type(optimizer).__name__}; train the model with "
            'torch.compile(model, backend="opwright") and this optimizer'
        )
    return rule


def _check_count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingError(
            f"train_step: accumulate must be an integer of at least 1, got {value!r}"
        )
    return value


def _check_bound(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise SettingError(
            f"train_step: {name} must be a number above 0, got {value!r}; omit it to "
            "disable clipping"
        )
    return float(value)


def _check_scaler(scaler: Any, state: State) -> Scaling | None:
    if scaler is None:
        return None
    if not isinstance(scaler, torch.amp.GradScaler):
        raise SettingError(
            f"train_step: scaler must be a torch.amp.GradScaler, got {type(scaler).__name__}; write"
            ' torch.amp.GradScaler("cpu")'
        )
    return Scaling(scaler, state.scope) if scaler.is_enabled() else None


def _check_group(data_parallel: Any) -> str:
    if isinstance(data_parallel, bool) or data_parallel is None:
        return WORLD if data_parallel else ""
    if not isinstance(data_parallel, str) or not data_parallel:
        raise SettingError(
            "train_step: data_parallel must be a bool or the name of a group of processes, got "
            f"{data_parallel!r}"
        )
    return data_parallel


def _share(model: torch.nn.Module, group: str) -> None:
    """Broadcast the parameters and buffers of a model from the first process."""
    program, scope = ow.Program(), ow.Scope()
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        value = tensor.detach()
        program.global_block().create_var(
            name, list(value.shape), dtype_name(value.dtype), persistable=True, stop_gradient=True
        )
        scope.var(name).borrow(value)
    find_processes().broadcast_state(program, scope, group)
