"""The layer methods of a Model: one for each layer function, with its parameters."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, overload

import opwright as ow
from opwright_nn import arguments, layers
from opwright_nn.layers.inputs import Input
from opwright_nn.model.programs import ModelPrograms

F = TypeVar("F", bound=Callable[..., Any])


class LayerMethod(Generic[F]):
    """A method of models that appends a layer, typed like the layer function.

    The method is created at its first use: creating all methods at once would slow down
    ``import opwright_nn``.

    Parameters
    ----------
    layer : callable
        The layer function.
    """

    def __init__(self, layer: F) -> None:
        self._layer = layer

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    @overload
    def __get__(self, model: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, model: object, owner: type) -> F: ...
    def __get__(self, model: object, owner: type) -> Any:
        method = self._make()
        setattr(self._owner, self._name, method)  # the next access bypasses this
        return method if model is None else types.MethodType(method, model)

    def _make(self) -> Callable[..., Any]:
        layer = inspect.unwrap(self._layer)  # wrong arguments are reported for the method

        @functools.wraps(layer)
        def method(self: ModelPrograms, *args: Any, **options: Any) -> Any:
            with self._building():
                return layer(*args, **options)

        signature = inspect.signature(layer)
        owner = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [owner, *signature.parameters.values()]
        method.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        method.__name__, method.__module__ = self._name, self._owner.__module__
        method.__qualname__ = f"{self._owner.__name__}.{self._name}"
        return arguments.suggest(method)


class LayerMethods(ModelPrograms):
    """A `Model` with a method for each layer function; see `Model`."""

    @arguments.suggest
    def accuracy(
        self, input: Input, label: Input, k: int = 1, name: str | None = None
    ) -> ow.Variable:
        """Append `layers.accuracy`; `run` returns the accuracy after the loss.

        Parameters
        ----------
        input, label, k, name
            As in `layers.accuracy`.
        """
        with self._building():
            output = layers.accuracy(input, label, k, name)
            self._add_metric(output)
        return output

    @arguments.suggest
    def concat(self, input: Iterable[Input], axis: int = 1, name: str | None = None) -> ow.Variable:
        """Append `layers.concat`, by default along the first axis after the batch.

        Parameters
        ----------
        input, axis, name
            As in `layers.concat`.
        """
        with self._building():
            return layers.concat(input, axis, name)

    adaptive_avg_pool2d = LayerMethod(layers.adaptive_avg_pool2d)
    adaptive_max_pool2d = LayerMethod(layers.adaptive_max_pool2d)
    add = LayerMethod(layers.add)
    attention = LayerMethod(layers.attention)
    avg_pool1d = LayerMethod(layers.avg_pool1d)
    avg_pool2d = LayerMethod(layers.avg_pool2d)
    avg_pool3d = LayerMethod(layers.avg_pool3d)
    batch_norm = LayerMethod(layers.batch_norm)
    bilinear = LayerMethod(layers.bilinear)
    cond = LayerMethod(layers.cond)
    conv1d = LayerMethod(layers.conv1d)
    conv1d_transpose = LayerMethod(layers.conv1d_transpose)
    conv2d = LayerMethod(layers.conv2d)
    conv2d_transpose = LayerMethod(layers.conv2d_transpose)
    conv3d = LayerMethod(layers.conv3d)
    conv3d_transpose = LayerMethod(layers.conv3d_transpose)
    cos_sim = LayerMethod(layers.cos_sim)
    cosine_embedding_loss = LayerMethod(layers.cosine_embedding_loss)
    cross_entropy = LayerMethod(layers.cross_entropy)
    ctc_loss = LayerMethod(layers.ctc_loss)
    divide = LayerMethod(layers.divide)
    dropout = LayerMethod(layers.dropout)
    elu = LayerMethod(layers.elu)
    embedding = LayerMethod(layers.embedding)
    fc_layer = LayerMethod(layers.fc)
    flatten = LayerMethod(layers.flatten)
    gelu = LayerMethod(layers.gelu)
    group_norm = LayerMethod(layers.group_norm)
    gru = LayerMethod(layers.gru)
    hard_sigmoid = LayerMethod(layers.hard_sigmoid)
    hard_swish = LayerMethod(layers.hard_swish)
    hinge = LayerMethod(layers.hinge)
    huber = LayerMethod(layers.huber)
    instance_norm = LayerMethod(layers.instance_norm)
    kl_div = LayerMethod(layers.kl_div)
    l1 = LayerMethod(layers.l1)
    label_smooth = LayerMethod(layers.label_smooth)
    layer_norm = LayerMethod(layers.layer_norm)
    leaky_relu = LayerMethod(layers.leaky_relu)
    learned_positions = LayerMethod(layers.learned_positions)
    log_loss = LayerMethod(layers.log_loss)
    log_softmax = LayerMethod(layers.log_softmax)
    lrn = LayerMethod(layers.lrn)
    lstm = LayerMethod(layers.lstm)
    margin_rank_loss = LayerMethod(layers.margin_rank_loss)
    matmul = LayerMethod(layers.matmul)
    max_pool1d = LayerMethod(layers.max_pool1d)
    max_pool2d = LayerMethod(layers.max_pool2d)
    max_pool3d = LayerMethod(layers.max_pool3d)
    mean = LayerMethod(layers.mean)
    mish = LayerMethod(layers.mish)
    mse = LayerMethod(layers.mse)
    multiply = LayerMethod(layers.multiply)
    nll = LayerMethod(layers.nll)
    prelu = LayerMethod(layers.prelu)
    rank_loss = LayerMethod(layers.rank_loss)
    relu = LayerMethod(layers.relu)
    relu6 = LayerMethod(layers.relu6)
    reshape = LayerMethod(layers.reshape)
    rms_norm = LayerMethod(layers.rms_norm)
    rnn = LayerMethod(layers.rnn)
    rotary_embedding = LayerMethod(layers.rotary_embedding)
    scan = LayerMethod(layers.scan)
    selu = LayerMethod(layers.selu)
    sigmoid = LayerMethod(layers.sigmoid)
    sigmoid_cross_entropy_with_logits = LayerMethod(layers.sigmoid_cross_entropy_with_logits)
    silu = LayerMethod(layers.silu)
    sinusoidal_positions = LayerMethod(layers.sinusoidal_positions)
    smooth_l1 = LayerMethod(layers.smooth_l1)
    softmax = LayerMethod(layers.softmax)
    softmax_with_cross_entropy = LayerMethod(layers.softmax_with_cross_entropy)
    softplus = LayerMethod(layers.softplus)
    squeeze = LayerMethod(layers.squeeze)
    subtract = LayerMethod(layers.subtract)
    tanh = LayerMethod(layers.tanh)
    transformer_decoder_block = LayerMethod(layers.transformer_decoder_block)
    transformer_encoder_block = LayerMethod(layers.transformer_encoder_block)
    transpose = LayerMethod(layers.transpose)
    unsqueeze = LayerMethod(layers.unsqueeze)
    while_loop = LayerMethod(layers.while_loop)
