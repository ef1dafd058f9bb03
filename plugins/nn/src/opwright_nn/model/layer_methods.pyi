"""Written by tests/nn/model/layer_stub.py from the layer functions."""

from collections.abc import Callable, Iterable, Sequence

import opwright as ow
from opwright_nn.layers.cond import Result
from opwright_nn.layers.loops import Carry, Variables
from opwright_nn.model.programs import Input, ModelPrograms
from opwright_nn.parallel import DataParallel
from opwright_nn.parameters.param_attr import ParamLike

METHOD_NAMES: dict[str, str]

class LayerMethods(ModelPrograms):
    def accuracy(
        self, input: Input, label: Input, k: int = 1, name: str | None = None
    ) -> ow.Variable:
        """Append the share of rows whose label is among the k highest scores.

        The method of `layers.accuracy`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`, int64 for `label`. `run` returns the
        output after the loss.
        """
    def adaptive_avg_pool2d(
        self,
        input: Input,
        output_size: int | Sequence[int],
        *,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> ow.Variable:
        """Append the mean of each of `output_size` bins, whatever the size of x.

        The method of `layers.adaptive_avg_pool2d`, whose x is `input`. Variables may be given
        by name; a new name becomes an input: float32 for `input`.
        """
    def adaptive_max_pool2d(
        self,
        input: Input,
        output_size: int | Sequence[int],
        *,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> ow.Variable:
        """Append the maximum of each of `output_size` bins, whatever the size of x.

        The method of `layers.adaptive_max_pool2d`, whose x is `input`. Variables may be given
        by name; a new name becomes an input: float32 for `input`.
        """
    def add(self, input: Input, y: Input, name: str | None = None) -> ow.Variable:
        """Append ``x + y`` of shapes that broadcast.

        The method of `layers.add`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`, float32 for `y`.
        """
    def attention(
        self,
        input: Input,
        heads: int,
        memory: Input | None = None,
        *,
        mask: Input | None = None,
        lengths: Input | None = None,
        causal: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append multi-head attention: projections, attention in each head, and a projection back.

        The method of `layers.attention`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`, float32 for `memory`, bool for `mask`,
        int64 for `lengths`.
        """
    def avg_pool1d(
        self,
        input: Input,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        paddings: str | int | Sequence[int] = 0,
        *,
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        data_format: str = "NCL",
        name: str | None = None,
    ) -> ow.Variable:
        """Append the mean of each window of sequences.

        The method of `layers.avg_pool1d`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def avg_pool2d(
        self,
        input: Input,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        paddings: str | int | Sequence[int] = 0,
        *,
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> ow.Variable:
        """Append the mean of each window.

        The method of `layers.avg_pool2d`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def avg_pool3d(
        self,
        input: Input,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        paddings: str | int | Sequence[int] = 0,
        *,
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> ow.Variable:
        """Append the mean of each window of volumes.

        The method of `layers.avg_pool3d`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def batch_norm(
        self,
        input: Input,
        *,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        activation: str | None = None,
        training: bool = True,
        unbiased: bool = False,
        sync: bool | str | DataParallel | None = None,
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append ``(x - mean) / sqrt(variance + epsilon) * w + b``, normalizing each channel.

        The method of `layers.batch_norm`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def bilinear(
        self,
        input: Input,
        y: Input,
        size: int,
        *,
        bias: bool = True,
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append ``sum(x[i] * w[k, i, j] * y[j]) + b[k]``, summed over i and j.

        The method of `layers.bilinear`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`, float32 for `y`.
        """
    def concat(self, input: Iterable[Input], axis: int = 1, name: str | None = None) -> ow.Variable:
        """Append the concatenation of variables along `axis`.

        The method of `layers.concat`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def cond(
        self,
        condition: Input,
        true_fn: Callable[[], Result],
        false_fn: Callable[[], Result],
        name: str | None = None,
    ) -> ow.Variable | tuple[ow.Variable, ...]:
        """Append both branches as blocks; a run computes the one that `condition` chooses.

        The method of `layers.cond`. Variables may be given by name; a new name becomes an
        input: bool for `condition`.
        """
    def conv1d(
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
        data_format: str = "NCL",
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append ``activation(x * w + b)``, the convolution of sequences x with a window w.

        The method of `layers.conv1d`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def conv1d_transpose(
        self,
        input: Input,
        filters: int,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        paddings: str | int | Sequence[int] = 0,
        *,
        output_padding: int | Sequence[int] = 0,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        activation: str | None = None,
        data_format: str = "NCL",
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append the transposed convolution of sequences, by that of images of height 1.

        The method of `layers.conv1d_transpose`, whose x is `input`. Variables may be given by
        name; a new name becomes an input: float32 for `input`.
        """
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
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append ``activation(x * w + b)``, the convolution of images x with a window w.

        The method of `layers.conv2d`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def conv2d_transpose(
        self,
        input: Input,
        filters: int,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        paddings: str | int | Sequence[int] = 0,
        *,
        output_padding: int | Sequence[int] = 0,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        activation: str | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append the transposed convolution: each pixel adds its multiple of a window w.

        The method of `layers.conv2d_transpose`, whose x is `input`. Variables may be given by
        name; a new name becomes an input: float32 for `input`.
        """
    def conv3d(
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
        data_format: str = "NCDHW",
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append ``activation(x * w + b)``, the convolution of volumes x with a window w.

        The method of `layers.conv3d`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def conv3d_transpose(
        self,
        input: Input,
        filters: int,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        paddings: str | int | Sequence[int] = 0,
        *,
        output_padding: int | Sequence[int] = 0,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        activation: str | None = None,
        data_format: str = "NCDHW",
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append the transposed convolution of volumes.

        The method of `layers.conv3d_transpose`, whose x is `input`. Variables may be given by
        name; a new name becomes an input: float32 for `input`.
        """
    def cos_sim(self, input: Input, y: Input, name: str | None = None) -> ow.Variable:
        """Append the cosine of each pair of rows of x and y.

        The method of `layers.cos_sim`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`, float32 for `y`.
        """
    def cosine_embedding_loss(
        self,
        input: Input,
        y: Input,
        label: Input,
        margin: float = 0.0,
        name: str | None = None,
        *,
        reduction: str = "none",
    ) -> ow.Variable:
        """Append ``1 - c`` or ``max(0, c - margin)`` for each pair of vectors of cosine c.

        The method of `layers.cosine_embedding_loss`, whose x is `input`. Variables may be given
        by name; a new name becomes an input: float32 for `input`, float32 for `y`, float32 for
        `label`.
        """
    def cross_entropy(
        self,
        input: Input,
        label: Input,
        soft_label: bool = False,
        name: str | None = None,
        *,
        ignore_index: int | None = None,
        class_weights: Sequence[float] | None = None,
        label_smoothing: float = 0.0,
        reduction: str = "none",
    ) -> ow.Variable:
        """Append ``-log(x[label])`` for each row of probabilities.

        The method of `layers.cross_entropy`, whose x is `input`. Variables may be given by
        name; a new name becomes an input: float32 for `input`, int64 for `label` or, with
        `soft_label`, float32.
        """
    def ctc_loss(
        self,
        input: Input,
        label: Input,
        lengths: Input | None = None,
        label_lengths: Input | None = None,
        blank: int = 0,
        zero_infinity: bool = False,
        name: str | None = None,
    ) -> ow.Variable:
        """Append ``-log p(label | x)`` for each row, the times of the labels being unknown.

        The method of `layers.ctc_loss`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`, int64 for `label`, int64 for `lengths`,
        int64 for `label_lengths`.
        """
    def divide(self, input: Input, y: Input, name: str | None = None) -> ow.Variable:
        """Append ``x / y`` of shapes that broadcast.

        The method of `layers.divide`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`, float32 for `y`.
        """
    def dropout(
        self,
        input: Input,
        probability: float = 0.5,
        seed: int = 0,
        training: bool = True,
        name: str | None = None,
    ) -> ow.Variable:
        """Append x with random elements set to 0 and the others divided by ``1 - probability``.

        The method of `layers.dropout`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def elu(self, input: Input, alpha: float = 1.0, name: str | None = None) -> ow.Variable:
        """Append ``x where x > 0, otherwise alpha * (exp(x) - 1)``.

        The method of `layers.elu`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def embedding(
        self,
        input: Input,
        size: Iterable[int],
        *,
        padding_index: int = -1,
        sparse: bool = False,
        dtype: object = "float32",
        name: str | None = None,
        param_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append the rows of a table at the indices `index`.

        The method of `layers.embedding`, whose index is `input`. Variables may be given by
        name; a new name becomes an input: int64 for `input`.
        """
    def fc_layer(
        self,
        input: Input,
        size: int,
        *,
        bias: bool = True,
        activation: str | None = None,
        num_flatten_dims: int = 1,
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append ``activation(x · w + b)``, with x flattened to a matrix.

        The method of `layers.fc`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def flatten(self, input: Input, axis: int = 1, name: str | None = None) -> ow.Variable:
        """Append x with the axes from `axis` on flattened: [n, 1, 28, 28] becomes [n, 784].

        The method of `layers.flatten`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def gelu(self, input: Input, approximate: str = "none", name: str | None = None) -> ow.Variable:
        """Append ``x * P(X <= x)``, X standard normal; `approximate` is "none" or "tanh".

        The method of `layers.gelu`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def group_norm(
        self,
        input: Input,
        groups: int,
        *,
        epsilon: float = 1e-05,
        scale: bool = True,
        bias: bool = True,
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append ``(x - mean) / sqrt(variance + epsilon) * w + b``, normalizing groups of channels.

        The method of `layers.group_norm`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def gru(
        self,
        input: Input,
        size: int,
        *,
        num_layers: int = 1,
        bidirectional: bool = False,
        h0: Input | None = None,
        lengths: Input | None = None,
        batch_first: bool = True,
        bias: bool = True,
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> tuple[ow.Variable, ow.Variable]:
        """Append gated recurrent units over sequences, with PyTorch's formulas and weights.

        The method of `layers.gru`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`, float32 for `h0`, int64 for `lengths`.
        """
    def hard_sigmoid(
        self, input: Input, alpha: float = 0.2, beta: float = 0.5, name: str | None = None
    ) -> ow.Variable:
        """Append ``min(max(alpha * x + beta, 0), 1)``; PyTorch's `alpha` is 1 / 6.

        The method of `layers.hard_sigmoid`, whose x is `input`. Variables may be given by name;
        a new name becomes an input: float32 for `input`.
        """
    def hard_swish(self, input: Input, name: str | None = None) -> ow.Variable:
        """Append ``x * min(max(x + 3, 0), 6) / 6``.

        The method of `layers.hard_swish`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def hinge(
        self, input: Input, label: Input, name: str | None = None, *, reduction: str = "none"
    ) -> ow.Variable:
        """Append ``max(0, 1 - x * label)`` for each score; labels are 1 or -1.

        The method of `layers.hinge`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`, float32 for `label`.
        """
    def huber(
        self,
        input: Input,
        label: Input,
        delta: float = 1.0,
        name: str | None = None,
        *,
        reduction: str = "none",
    ) -> ow.Variable:
        """Append ``(x - label)**2 / 2`` for each element, linear beyond `delta`.

        The method of `layers.huber`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`, float32 for `label`.
        """
    def instance_norm(
        self,
        input: Input,
        *,
        epsilon: float = 1e-05,
        scale: bool = True,
        bias: bool = True,
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append ``(x - mean) / sqrt(variance + epsilon) * w + b`` for each channel of a sample.

        The method of `layers.instance_norm`, whose x is `input`. Variables may be given by
        name; a new name becomes an input: float32 for `input`.
        """
    def kl_div(
        self,
        input: Input,
        label: Input,
        log_label: bool = False,
        name: str | None = None,
        *,
        reduction: str = "none",
    ) -> ow.Variable:
        """Append ``label * (log(label) - x)`` for each element.

        The method of `layers.kl_div`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`, float32 for `label`.
        """
    def l1(
        self, input: Input, label: Input, name: str | None = None, *, reduction: str = "none"
    ) -> ow.Variable:
        """Append ``|x - label|`` for each element; with `reduction` "mean" or "sum" one number.

        The method of `layers.l1`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`, float32 for `label`.
        """
    def label_smooth(
        self,
        input: Input,
        prior: Input | None = None,
        epsilon: float = 0.1,
        name: str | None = None,
    ) -> ow.Variable:
        """Append ``(1 - epsilon) * x + epsilon * prior`` for distributions of classes.

        The method of `layers.label_smooth`, whose x is `input`. Variables may be given by name;
        a new name becomes an input: float32 for `input`, float32 for `prior`.
        """
    def layer_norm(
        self,
        input: Input,
        *,
        begin_norm_axis: int = 1,
        epsilon: float = 1e-05,
        scale: bool = True,
        bias: bool = True,
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append ``(x - mean) / sqrt(variance + epsilon) * w + b``, normalizing each sample.

        The method of `layers.layer_norm`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def leaky_relu(self, input: Input, alpha: float = 0.01, name: str | None = None) -> ow.Variable:
        """Append ``x where x > 0, otherwise alpha * x``.

        The method of `layers.leaky_relu`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def learned_positions(
        self,
        input: Input,
        max_length: int,
        *,
        name: str | None = None,
        param_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append x plus a trained row for each position.

        The method of `layers.learned_positions`, whose x is `input`. Variables may be given by
        name; a new name becomes an input: float32 for `input`.
        """
    def log_loss(
        self,
        input: Input,
        label: Input,
        epsilon: float = 0.0001,
        name: str | None = None,
        *,
        reduction: str = "none",
    ) -> ow.Variable:
        """Append ``-label * log(x) - (1 - label) * log(1 - x)`` for each probability.

        The method of `layers.log_loss`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`, float32 for `label`.
        """
    def log_softmax(self, input: Input, axis: int = -1, name: str | None = None) -> ow.Variable:
        """Append ``log(softmax(x))`` over `axis`.

        The method of `layers.log_softmax`, whose x is `input`. Variables may be given by name;
        a new name becomes an input: float32 for `input`.
        """
    def lrn(
        self,
        input: Input,
        size: int = 5,
        *,
        alpha: float = 0.0001,
        beta: float = 0.75,
        bias: float = 1.0,
        name: str | None = None,
    ) -> ow.Variable:
        """Append ``x / (bias + alpha * m) ** beta``, m the mean of the squares of near channels.

        The method of `layers.lrn`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def lstm(
        self,
        input: Input,
        size: int,
        *,
        num_layers: int = 1,
        bidirectional: bool = False,
        h0: Input | None = None,
        c0: Input | None = None,
        lengths: Input | None = None,
        batch_first: bool = True,
        bias: bool = True,
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> tuple[ow.Variable, ow.Variable, ow.Variable]:
        """Append long short-term memory over sequences, with PyTorch's formulas and weights.

        The method of `layers.lstm`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`, float32 for `h0`, float32 for `c0`, int64
        for `lengths`.
        """
    def margin_rank_loss(
        self,
        input: Input,
        y: Input,
        label: Input,
        margin: float = 0.0,
        name: str | None = None,
        *,
        reduction: str = "none",
    ) -> ow.Variable:
        """Append ``max(0, margin - label * (x - y))`` for each pair of scores.

        The method of `layers.margin_rank_loss`, whose x is `input`. Variables may be given by
        name; a new name becomes an input: float32 for `input`, float32 for `y`, float32 for
        `label`.
        """
    def matmul(
        self,
        input: Input,
        y: Input,
        transpose_x: bool = False,
        transpose_y: bool = False,
        name: str | None = None,
    ) -> ow.Variable:
        """Append the products of matrices, the last two axes of each variable.

        The method of `layers.matmul`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`, float32 for `y`.
        """
    def max_pool1d(
        self,
        input: Input,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        paddings: str | int | Sequence[int] = 0,
        *,
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        data_format: str = "NCL",
        name: str | None = None,
    ) -> ow.Variable:
        """Append the maximum of each window of sequences.

        The method of `layers.max_pool1d`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def max_pool2d(
        self,
        input: Input,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        paddings: str | int | Sequence[int] = 0,
        *,
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> ow.Variable:
        """Append the maximum of each window; padding never counts.

        The method of `layers.max_pool2d`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def max_pool3d(
        self,
        input: Input,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        paddings: str | int | Sequence[int] = 0,
        *,
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> ow.Variable:
        """Append the maximum of each window of volumes.

        The method of `layers.max_pool3d`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def mean(
        self,
        input: Input,
        axis: Iterable[int] = (),
        keepdims: bool = False,
        name: str | None = None,
    ) -> ow.Variable:
        """Append the mean over `axis`, over everything by default.

        The method of `layers.mean`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def mish(self, input: Input, name: str | None = None) -> ow.Variable:
        """Append ``x * tanh(softplus(x))``.

        The method of `layers.mish`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def mse(
        self, input: Input, label: Input, name: str | None = None, *, reduction: str = "none"
    ) -> ow.Variable:
        """Append ``(x - label)**2`` for each element.

        The method of `layers.mse`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`, float32 for `label`.
        """
    def multiply(self, input: Input, y: Input, name: str | None = None) -> ow.Variable:
        """Append ``x * y`` of shapes that broadcast, element by element.

        The method of `layers.multiply`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`, float32 for `y`.
        """
    def nll(
        self,
        input: Input,
        label: Input,
        ignore_index: int = -100,
        axis: int = -1,
        name: str | None = None,
    ) -> ow.Variable:
        """Append ``-x[label]`` for each row of logarithms of probabilities.

        The method of `layers.nll`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`, int64 for `label`.
        """
    def prelu(
        self,
        input: Input,
        per_channel: bool = False,
        *,
        name: str | None = None,
        param_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append ``x where x > 0, otherwise w * x``.

        The method of `layers.prelu`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def rank_loss(
        self,
        input: Input,
        y: Input,
        label: Input,
        name: str | None = None,
        *,
        reduction: str = "none",
    ) -> ow.Variable:
        """Append ``log(1 + exp(x - y)) - label * (x - y)`` for each pair of scores.

        The method of `layers.rank_loss`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`, float32 for `y`, float32 for `label`.
        """
    def relu(self, input: Input, name: str | None = None) -> ow.Variable:
        """Append ``max(x, 0)``.

        The method of `layers.relu`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def relu6(self, input: Input, name: str | None = None) -> ow.Variable:
        """Append ``min(max(x, 0), 6)``.

        The method of `layers.relu6`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def reshape(
        self,
        input: Input,
        shape: ow.Variable | Iterable[ow.Variable | int | None],
        name: str | None = None,
    ) -> ow.Variable:
        """Append x with another shape; elements and their order remain.

        The method of `layers.reshape`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def rms_norm(
        self,
        input: Input,
        *,
        begin_norm_axis: int = -1,
        epsilon: float = 1e-05,
        scale: bool = True,
        name: str | None = None,
        param_attr: ParamLike | None = None,
    ) -> ow.Variable:
        """Append ``x / sqrt(mean(x**2) + epsilon) * w``, normalizing each row.

        The method of `layers.rms_norm`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def rnn(
        self,
        input: Input,
        size: int,
        *,
        activation: str = "tanh",
        num_layers: int = 1,
        bidirectional: bool = False,
        h0: Input | None = None,
        lengths: Input | None = None,
        batch_first: bool = True,
        bias: bool = True,
        name: str | None = None,
        param_attr: ParamLike | None = None,
        bias_attr: ParamLike | None = None,
    ) -> tuple[ow.Variable, ow.Variable]:
        """Append ``h = activation(x * w_ih + b_ih + h * w_hh + b_hh)`` over sequences.

        The method of `layers.rnn`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`, float32 for `h0`, int64 for `lengths`.
        """
    def rotary_embedding(
        self,
        input: Input,
        max_length: int,
        *,
        base: float = 10000.0,
        interleaved: bool = False,
        name: str | None = None,
    ) -> ow.Variable:
        """Append x with its columns turned in pairs, by angles that grow with the position.

        The method of `layers.rotary_embedding`, whose x is `input`. Variables may be given by
        name; a new name becomes an input: float32 for `input`.
        """
    def scan(
        self,
        body: Callable[..., object],
        init: Variables,
        xs: Variables | None = None,
        length: int | None = None,
        reverse: bool = False,
        name: str | None = None,
        checkpoint_every: int | None = None,
        axis: int = 0,
    ) -> tuple[Carry, Carry | None]:
        """Append a loop over the elements of `xs` along an axis, as `jax.lax.scan` does.

        The method of `layers.scan`.
        """
    def selu(self, input: Input, name: str | None = None) -> ow.Variable:
        """Append ``1.0507 * elu(x, alpha=1.6733)``, which keeps the mean 0 and the variance 1.

        The method of `layers.selu`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def sigmoid(self, input: Input, name: str | None = None) -> ow.Variable:
        """Append ``1 / (1 + exp(-x))``.

        The method of `layers.sigmoid`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def sigmoid_cross_entropy_with_logits(
        self,
        input: Input,
        label: Input,
        name: str | None = None,
        *,
        positive_weight: float | None = None,
        reduction: str = "none",
    ) -> ow.Variable:
        """Append ``-label * log(s) - (1 - label) * log(1 - s)``, where s is sigmoid(x).

        The method of `layers.sigmoid_cross_entropy_with_logits`, whose x is `input`. Variables
        may be given by name; a new name becomes an input: float32 for `input`, float32 for
        `label`.
        """
    def silu(self, input: Input, name: str | None = None) -> ow.Variable:
        """Append ``x * sigmoid(x)``.

        The method of `layers.silu`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def sinusoidal_positions(
        self, input: Input, base: float = 10000.0, name: str | None = None
    ) -> ow.Variable:
        """Append x plus sines and cosines of each position, which nothing trains.

        The method of `layers.sinusoidal_positions`, whose x is `input`. Variables may be given
        by name; a new name becomes an input: float32 for `input`.
        """
    def smooth_l1(
        self,
        input: Input,
        label: Input,
        beta: float = 1.0,
        name: str | None = None,
        *,
        reduction: str = "none",
    ) -> ow.Variable:
        """Append ``|x - label|`` for each element, with a round bottom.

        The method of `layers.smooth_l1`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`, float32 for `label`.
        """
    def softmax(self, input: Input, axis: int = -1, name: str | None = None) -> ow.Variable:
        """Append ``exp(x) / sum(exp(x))`` over `axis`.

        The method of `layers.softmax`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def softmax_with_cross_entropy(
        self,
        input: Input,
        label: Input,
        soft_label: bool = False,
        ignore_index: int = -100,
        name: str | None = None,
        *,
        axis: int = -1,
        class_weights: Sequence[float] | None = None,
        label_smoothing: float = 0.0,
        reduction: str = "none",
    ) -> ow.Variable:
        """Append ``-log(softmax(logits)[label])`` for each row.

        The method of `layers.softmax_with_cross_entropy`, whose logits is `input`. Variables
        may be given by name; a new name becomes an input: float32 for `input`, int64 for
        `label` or, with `soft_label`, float32.
        """
    def softplus(self, input: Input, name: str | None = None) -> ow.Variable:
        """Append ``log(1 + exp(x))``.

        The method of `layers.softplus`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def squeeze(
        self, input: Input, axis: int | Iterable[int] = (), name: str | None = None
    ) -> ow.Variable:
        """Append x without axes of size 1.

        The method of `layers.squeeze`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def subtract(self, input: Input, y: Input, name: str | None = None) -> ow.Variable:
        """Append ``x - y`` of shapes that broadcast.

        The method of `layers.subtract`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`, float32 for `y`.
        """
    def tanh(self, input: Input, name: str | None = None) -> ow.Variable:
        """Append ``tanh(x)``.

        The method of `layers.tanh`, whose x is `input`. Variables may be given by name; a new
        name becomes an input: float32 for `input`.
        """
    def transformer_decoder_block(
        self,
        input: Input,
        memory: Input,
        heads: int,
        *,
        hidden: int | None = None,
        activation: str = "gelu",
        dropout: float = 0.0,
        norm_first: bool = True,
        causal: bool = True,
        lengths: Input | None = None,
        memory_mask: Input | None = None,
        memory_lengths: Input | None = None,
        epsilon: float = 1e-05,
        name: str | None = None,
    ) -> ow.Variable:
        """Append attention of a sequence to itself, then to a memory, and a feed-forward network.

        The method of `layers.transformer_decoder_block`, whose x is `input`. Variables may be
        given by name; a new name becomes an input: float32 for `input`, float32 for `memory`,
        int64 for `lengths`, bool for `memory_mask`, int64 for `memory_lengths`.
        """
    def transformer_encoder_block(
        self,
        input: Input,
        heads: int,
        *,
        hidden: int | None = None,
        activation: str = "gelu",
        dropout: float = 0.0,
        norm_first: bool = True,
        causal: bool = False,
        mask: Input | None = None,
        lengths: Input | None = None,
        epsilon: float = 1e-05,
        name: str | None = None,
    ) -> ow.Variable:
        """Append attention of a sequence to itself and a feed-forward network, each with a detour.

        The method of `layers.transformer_encoder_block`, whose x is `input`. Variables may be
        given by name; a new name becomes an input: float32 for `input`, bool for `mask`, int64
        for `lengths`.
        """
    def transpose(self, input: Input, axes: Iterable[int], name: str | None = None) -> ow.Variable:
        """Append x with its axes in another order.

        The method of `layers.transpose`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def unsqueeze(
        self, input: Input, axis: int | Iterable[int], name: str | None = None
    ) -> ow.Variable:
        """Append x with new axes of size 1.

        The method of `layers.unsqueeze`, whose x is `input`. Variables may be given by name; a
        new name becomes an input: float32 for `input`.
        """
    def while_loop(
        self,
        condition: Callable[..., object],
        body: Callable[..., object],
        init: Variables,
        max_steps: int | None = None,
        name: str | None = None,
        stack: bool = False,
    ) -> Carry | tuple[Carry, Carry]:
        """Append a loop that runs as long as a condition holds, as `jax.lax.while_loop` does.

        The method of `layers.while_loop`.
        """
