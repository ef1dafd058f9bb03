"""The methods of a Model that append gradients and updates, and select trained parameters."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import opwright as ow
from opwright.errors import AttributeValueError, ProgramError
from opwright.plugin import record_undo
from opwright_nn import arguments, checks, operators
from opwright_nn.clip import GradientClip
from opwright_nn.layers.inputs import Input
from opwright_nn.model.files import ModelFiles
from opwright_nn.model.trained_parameters import TrainedParameters, match_names
from opwright_nn.optimizer import SGD, Adam, AdamW, Momentum, Optimizer, make_optimizer
from opwright_nn.optimizer.base import Pair
from opwright_nn.optimizer.loss_scaling import append_gradients
from opwright_nn.optimizer.pairs import check_dense
from opwright_nn.parallel import DataParallel, average
from opwright_nn.regularizer import Regularizer
from opwright_nn.schedule import Rate

Names = Iterable[ow.Variable | str] | ow.Variable | str


class ModelTraining(ModelFiles):
    """The part of a `Model` that trains; see `Model`."""

    param_grads: list[Pair]
    _trained: TrainedParameters
    _parallel: DataParallel | None

    @arguments.suggest
    def backward(
        self, loss: Input | Sequence[Input], weights: Sequence[float] | None = None
    ) -> list[Pair]:
        """Append the gradients of `loss`; from then on, `run` returns the loss first.

        Parameters
        ----------
        loss : Variable or str, or list of these
            A scalar for the batch, such as the output of `mean`. With several losses their sum is
            minimized; `run` returns the sum, followed by each loss.
        weights : sequence of float, optional
            A factor for each of several losses.

        Returns
        -------
        list of (Variable, Variable)
            Each parameter with its gradient.
        """
        if self._loss is not None:
            raise ProgramError(
                "Model.backward: a model can have only one loss, got a second loss after "
                f"{self._loss!r}; pass a list of both losses"
            )
        with self._building():
            total, parts = self._add_losses(loss, weights)
            pairs = append_gradients("Model.backward", total)
            self._set("_metrics", [*parts, *self._metrics])
        self._set("param_grads", pairs)
        self._set("_loss", total.name)
        self._trained.note_flags()
        return self.param_grads

    @arguments.suggest
    def optimize(
        self,
        optimizer: Optimizer | str,
        parameters: Iterable[ow.Variable | str] | None = None,
        **attrs: Any,
    ) -> Optimizer:
        """Append the updates of the parameters, after `backward`.

        Parameters
        ----------
        optimizer : Optimizer or str
            One of `nn.optimizer`, or a type in `OPTIMIZERS`: "sgd", "adam", "rmsprop".
        parameters : iterable of Variable or str, optional
            The parameters to train; by default every trainable parameter with a gradient.
        **attrs
            The arguments of the optimizer's class, if `optimizer` is a type.

        Raises
        ------
        ProgramError
            `backward` has not been called, or the model already has an optimizer.
        """
        who = "Model.optimize"
        if isinstance(optimizer, str):
            optimizer = make_optimizer(optimizer, attrs)
        elif attrs:
            raise AttributeValueError(
                f"{who}: attributes require an optimizer type, got {next(iter(attrs))!r} for an "
                f"object {type(optimizer).__name__}; pass them to its class"
            )
        checks.check_instance(who, "optimizer", optimizer, Optimizer, required=True)
        if self._loss is None:
            raise ProgramError(
                f"{who}: the gradients must exist, got a model without them; call "
                "model.backward(loss) first"
            )
        if self.optimizer is not None:
            raise ProgramError(
                f"{who}: a model can have only one optimizer, got {type(optimizer).__name__} after "
                f"{type(self.optimizer).__name__}; change its rate with set_learning_rate, or "
                "build another model"
            )
        pairs = self._trained.choose(who, self.param_grads, parameters)
        with self._building():
            if self._parallel is not None:
                check_dense(who, pairs, self._parallel.group)
            optimizer.apply_gradients(average(who, self._parallel, pairs))
        self._trained.note_flags()
        self._set("optimizer", optimizer)
        return optimizer

    @arguments.suggest
    def sgd(
        self,
        learning_rate: Rate = 0.01,
        *,
        regularizer: Regularizer | None = None,
        clip: GradientClip | None = None,
    ) -> Optimizer:
        """Append gradient descent, see `optimizer.SGD`."""
        return self.optimize(SGD(learning_rate, regularizer=regularizer, clip=clip))

    def momentum(self, learning_rate: Rate = 0.01, mu: float = 0.9, **options: Any) -> Optimizer:
        """Append gradient descent with momentum, see `optimizer.Momentum`."""
        return self.optimize(Momentum(learning_rate, mu, **options))

    def adam(self, learning_rate: Rate = 0.001, **options: Any) -> Optimizer:
        """Append Adam, see `optimizer.Adam`."""
        return self.optimize(Adam(learning_rate, **options))

    def adamw(self, learning_rate: Rate = 0.001, **options: Any) -> Optimizer:
        """Append AdamW, see `optimizer.AdamW`."""
        return self.optimize(AdamW(learning_rate, **options))

    @arguments.suggest
    def minimize(
        self,
        loss: Input | Sequence[Input],
        optimizer: Optimizer | str,
        parameters: Iterable[ow.Variable | str] | None = None,
        *,
        weights: Sequence[float] | None = None,
    ) -> list[Pair]:
        """Append the gradients of `loss` and the updates: `backward` and `optimize` in one call.

        ::

            model.minimize(loss + 1e-4 * model.l2(), nn.optimizer.Adam(1e-3))

        Parameters
        ----------
        loss, weights
            As for `backward`.
        optimizer, parameters
            As for `optimize`.

        Returns
        -------
        list of (Variable, Variable)
            Each parameter with its gradient.

        Raises
        ------
        ProgramError
            The model already has a loss. After any error the model is unchanged.
        """
        with self._building():
            self.backward(loss, weights)
            self.optimize(optimizer, parameters)
        return self.param_grads

    @arguments.suggest
    def l2(self, parameters: Names | None = None) -> ow.Variable:
        """Append the sum of the squares of parameters, a penalty to add to a loss.

        Parameters
        ----------
        parameters : Variable or str, or list of these, optional
            Names may be patterns: ``"*_w_param"`` for weights without biases. By default every
            trainable parameter of the layers so far.

        Returns
        -------
        Variable
            A scalar, ``sum(p ** 2)`` over all elements of the parameters.

        Raises
        ------
        ProgramError
            The model has no trainable parameter.
        VariableNotFoundError
            A name or pattern matches no parameter.
        """
        who = "Model.l2"
        known = self.program.parameters()
        if parameters is None:
            names = [parameter.name for parameter in known if parameter.trainable]
        else:
            names = match_names(who, parameters, [parameter.name for parameter in known])
        if not names:
            raise ProgramError(
                f"{who}: the model must have a trainable parameter, got none; append the layers "
                "first"
            )
        block = self.program.global_block()
        with self._building():
            squares = [
                operators.append(block, "square", {"x": n}, prefix="l2/square") for n in names
            ]
            sums = [operators.append(block, "sum", {"x": x}, prefix="l2/sum") for x in squares]
            return operators.append(block, "add_n", {"x": sums}, prefix="l2")

    @arguments.suggest
    def freeze(self, parameters: Names) -> list[str]:
        """Freeze parameters for later steps, at any time; return their names.

        `resume` requires a model with the same frozen parameters.

        Parameters
        ----------
        parameters : Variable or str, or list of these
            Names may be patterns: ``"backbone_*"``.

        Raises
        ------
        VariableNotFoundError
            A name or pattern matches no parameter.
        """
        return self._set_trainable("Model.freeze", parameters, False)

    @arguments.suggest
    def unfreeze(self, parameters: Names) -> list[str]:
        """Resume training of parameters that `freeze` has excluded; return their names.

        Parameters
        ----------
        parameters : Variable or str, or list of these
            As for `freeze`.

        Raises
        ------
        ProgramError
            A parameter was frozen before `backward`, so it has no gradient.
        """
        return self._set_trainable("Model.unfreeze", parameters, True)

    def _set_trainable(self, who: str, parameters: Names, value: bool) -> list[str]:
        names = match_names(who, parameters, [p.name for p in self.program.parameters()])
        with self._building():
            self._trained.change(who, names, value, has_updates=self.optimizer is not None)
        return names

    @property
    def learning_rate(self) -> float:
        """The learning rate of the optimizer at the last step, or the initial learning rate.

        ``model.learning_rate = 0.01`` calls ``model.set_learning_rate(0.01)``.
        """
        optimizer = self._require_optimizer("Model.learning_rate")
        rate = self.scope.find_var(optimizer.learning_rate.name)
        if rate is None or not rate.is_set:
            return optimizer.initial_learning_rate
        return float(str(rate.numpy().reshape(-1)[0]))  # 0.1, as a float32

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self.set_learning_rate(value)

    @arguments.suggest
    def set_learning_rate(self, value: float) -> None:
        """Change the learning rate of later steps; `initialize_parameters` resets it."""
        who = "Model.set_learning_rate"
        optimizer = self._require_optimizer(who)
        rate = self.scope.find_var(optimizer.learning_rate.name)
        number = checks.check_float(who, "value", value, at_least=0.0)
        if optimizer.schedule is None and (rate is None or not rate.is_set):
            first = np.full(1, optimizer.initial_learning_rate, np.float32)
            self._startup.write(who, optimizer.learning_rate.name, first)
        optimizer.set_learning_rate(self.scope, number)

    def _require_optimizer(self, who: str) -> Optimizer:
        if self.optimizer is None:
            raise ProgramError(
                f"{who}: the model must have an optimizer, got none; call a method such as "
                "model.sgd() first"
            )
        return self.optimizer

    def _add_losses(
        self, loss: Input | Sequence[Input], weights: Sequence[float] | None
    ) -> tuple[ow.Variable, list[str]]:
        """Return the loss, or the appended sum of losses, and the loss names."""
        who = "Model.backward"
        if isinstance(loss, ow.Variable | str) or not isinstance(loss, Sequence):
            if weights is not None:
                raise AttributeValueError(
                    f"{who}: weights must come with a list of losses, got one loss; write "
                    "[a, b], weights=[1.0, 0.5]"
                )
            return self._get_variable(who, loss), []
        losses = [self._get_variable(who, item) for item in loss]
        factors = [1.0] * len(losses) if weights is None else list(weights)
        if not losses or len(factors) != len(losses):
            raise AttributeValueError(
                f"{who}: loss must be a nonempty list with a weight for each loss, got "
                f"{len(losses)} losses and {len(factors)} weights"
            )
        numbers = [checks.check_float(who, f"weights[{i}]", f) for i, f in enumerate(factors)]
        parts = [x if f == 1.0 else x * f for x, f in zip(losses, numbers, strict=True)]
        total = functools.reduce(operator.add, parts)
        return total, [item.name for item in losses]

    def _set(self, attribute: str, value: object) -> None:
        # The old value is recorded so that a transaction around the call can restore it.
        record_undo(setattr, self, attribute, getattr(self, attribute))
        setattr(self, attribute, value)
