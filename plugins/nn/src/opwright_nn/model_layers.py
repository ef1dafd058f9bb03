"""The layer methods of a Model: layers whose inputs may be given by name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import opwright as ow
from opwright.errors import AttributeTypeError
from opwright.plugin import record_undo as record

from . import checks, layers
from .deferred import Deferred, deferred_guard
from .param_attr import ParamAttr

Input = ow.Variable | str
"""A variable, or the name of one; a new name becomes an input that is fed."""


class ModelLayers:
    """What a `Model` is built of; see there.

    Attributes
    ----------
    program, startup_program : Program
        What a step computes, and what fills the parameters before the first one.
    """

    def __init__(self) -> None:
        self.program = ow.Program()
        self.startup_program = ow.Program()
        self._deferred = Deferred()
        self._metrics: list[str] = []

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Let layer functions append to this model: ``with model.guard(): layers.relu(x)``."""
        programs = ow.program_guard(self.program, self.startup_program)
        with programs, deferred_guard(self._deferred):
            yield

    def input(
        self, name: str, shape: Iterable[int | None] | None = None, dtype: object = "float32"
    ) -> ow.Variable:
        """Return the input of that name, made where it is new.

        Parameters
        ----------
        name : str
            What `fill` and `predict` call it.
        shape : iterable of int or None, optional
            None for the batch, and for what else may change unless the shape of a parameter hangs
            on it; no shape at all waits for the first batch.
        dtype : str or NumPy dtype
            Of the arrays that are filled in.
        """
        with self._building():
            return layers.data(name, shape, dtype)

    def fc_layer(
        self,
        input: Input,
        size: int,
        *,
        bias: bool = True,
        activation: str | None = None,
        num_flatten_dims: int = 1,
        name: str | None = None,
        param_attr: ParamAttr | None = None,
        bias_attr: ParamAttr | None = None,
    ) -> ow.Variable:
        """Append a fully connected layer; arguments are those of `layers.fc`."""
        with self._building():
            return layers.fc(
                self._find(input, "fc_layer", "input"),
                size,
                bias=bias,
                activation=activation,
                num_flatten_dims=num_flatten_dims,
                name=name,
                param_attr=param_attr,
                bias_attr=bias_attr,
            )

    def conv2d(
        self,
        input: Input,
        filters: int,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        paddings: str | int | Sequence[int] = 0,
        *,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        activation: str | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
        param_attr: ParamAttr | None = None,
        bias_attr: ParamAttr | None = None,
    ) -> ow.Variable:
        """Append a convolution over images; arguments are those of `layers.conv2d`."""
        with self._building():
            return layers.conv2d(
                self._find(input, "conv2d", "input"),
                filters,
                kernel,
                strides,
                paddings,
                dilations=dilations,
                groups=groups,
                bias=bias,
                activation=activation,
                data_format=data_format,
                name=name,
                param_attr=param_attr,
                bias_attr=bias_attr,
            )

    def max_pool2d(
        self,
        input: Input,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        paddings: str | int | Sequence[int] = 0,
        *,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> ow.Variable:
        """Append the greatest element of each window, see `layers.max_pool2d`."""
        with self._building():
            return layers.max_pool2d(
                self._find(input, "max_pool2d", "input"),
                kernel,
                strides,
                paddings,
                ceil_mode=ceil_mode,
                data_format=data_format,
                name=name,
            )

    def avg_pool2d(
        self,
        input: Input,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        paddings: str | int | Sequence[int] = 0,
        *,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> ow.Variable:
        """Append the mean of each window, see `layers.avg_pool2d`."""
        with self._building():
            return layers.avg_pool2d(
                self._find(input, "avg_pool2d", "input"),
                kernel,
                strides,
                paddings,
                ceil_mode=ceil_mode,
                count_include_pad=count_include_pad,
                data_format=data_format,
                name=name,
            )

    def adaptive_avg_pool2d(
        self,
        input: Input,
        output_size: int | Sequence[int],
        *,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> ow.Variable:
        """Append means of so many bins, see `layers.adaptive_avg_pool2d`."""
        with self._building():
            x = self._find(input, "adaptive_avg_pool2d", "input")
            return layers.adaptive_avg_pool2d(x, output_size, data_format=data_format, name=name)

    def flatten(self, input: Input, axis: int = 1, *, name: str | None = None) -> ow.Variable:
        """Append the axes from `axis` on made one, see `layers.flatten`."""
        with self._building():
            return layers.flatten(self._find(input, "flatten", "input"), axis, name)

    def dropout(
        self, input: Input, probability: float = 0.5, *, seed: int = 0, name: str | None = None
    ) -> ow.Variable:
        """Append dropout, which `predict` leaves out; arguments are those of `layers.dropout`."""
        with self._building():
            x = self._find(input, "dropout", "input")
            return layers.dropout(x, probability, seed, name=name)

    def embedding(
        self,
        input: Input,
        size: Iterable[int],
        *,
        padding_index: int = -1,
        name: str | None = None,
        param_attr: ParamAttr | None = None,
    ) -> ow.Variable:
        """Append a table's rows at int64 `input`; arguments are those of `layers.embedding`."""
        with self._building():
            return layers.embedding(
                self._find(input, "embedding", "input", "int64"),
                size,
                padding_index=padding_index,
                name=name,
                param_attr=param_attr,
            )

    def layer_norm(self, input: Input, *, name: str | None = None) -> ow.Variable:
        """Append normalisation within each sample, see `layers.layer_norm`."""
        with self._building():
            return layers.layer_norm(self._find(input, "layer_norm", "input"), name=name)

    def batch_norm(
        self, input: Input, *, activation: str | None = None, name: str | None = None
    ) -> ow.Variable:
        """Append normalisation over the batch, see `layers.batch_norm`."""
        with self._building():
            x = self._find(input, "batch_norm", "input")
            return layers.batch_norm(x, activation=activation, name=name)

    def concat(
        self, input: Iterable[Input], axis: int = 1, *, name: str | None = None
    ) -> ow.Variable:
        """Append several variables as one, see `layers.concat`."""
        with self._building():
            if isinstance(input, ow.Variable | str) or not isinstance(input, Iterable):
                raise AttributeTypeError(
                    f"concat: input must be a list of variables or names, got {input!r}; write "
                    "concat(input=[a, b])"
                )
            parts = [self._find(part, "concat", f"input[{i}]") for i, part in enumerate(input)]
            return layers.concat(parts, axis, name)

    def mean(self, input: Input, *, name: str | None = None) -> ow.Variable:
        """Append the mean over all elements."""
        with self._building():
            return layers.mean(self._find(input, "mean", "input"), name=name)

    def cross_entropy(
        self, input: Input, label: Input, *, soft_label: bool = False, name: str | None = None
    ) -> ow.Variable:
        """Append ``-log(input[label])`` for each row of probabilities.

        A label given by a new name is int64, or float32 with `soft_label`.
        """
        with self._building():
            x = self._find(input, "cross_entropy", "input")
            target = self._find_label("cross_entropy", label, soft_label)
            return layers.cross_entropy(x, target, soft_label, name)

    def softmax_with_cross_entropy(
        self, input: Input, label: Input, *, soft_label: bool = False, name: str | None = None
    ) -> ow.Variable:
        """Append ``-log(softmax(input)[label])`` for each row of logits.

        A label given by a new name is int64, or float32 with `soft_label`.
        """
        who = "softmax_with_cross_entropy"
        with self._building():
            logits = self._find(input, who, "input")
            target = self._find_label(who, label, soft_label)
            return layers.softmax_with_cross_entropy(logits, target, soft_label, name=name)

    def accuracy(
        self, input: Input, label: Input, k: int = 1, *, name: str | None = None
    ) -> ow.Variable:
        """Append the share of right rows; `run` returns it behind the loss."""
        with self._building():
            x = self._find(input, "accuracy", "input")
            found = layers.accuracy(x, self._find_label("accuracy", label, False), k, name)
        self._metrics.append(found.name)
        record(self._metrics.pop)
        return found

    @contextlib.contextmanager
    def _building(self) -> Iterator[None]:
        with self.guard(), ow.transaction():
            yield

    def _find(self, given: object, who: str, slot: str, dtype: str = "float32") -> ow.Variable:
        if isinstance(given, str):
            checks.check_str(who, slot, given)
            old = self.program.current_block().find_var(given)
            return layers.data(given, None, dtype) if old is None else old
        if not isinstance(given, ow.Variable):
            raise AttributeTypeError(
                f"{who}: {slot} must be a variable or the name of one, got {given!r} "
                f'({type(given).__name__}); write {slot}="img" or what a layer returned'
            )
        return given

    def _find_label(self, who: str, label: object, soft: bool) -> ow.Variable:
        return self._find(label, who, "label", "float32" if soft is True else "int64")
