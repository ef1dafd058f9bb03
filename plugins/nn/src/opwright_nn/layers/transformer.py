"""Transformer blocks: attention and a feed-forward network, each with a residual connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import opwright as ow
from opwright_nn import checks, operators
from opwright_nn.layers.attention import attention, clear_behind
from opwright_nn.layers.dropout import dropout as append_dropout
from opwright_nn.layers.fc import fc
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import Layer, begin, check_activation, last_axis
from opwright_nn.layers.normalization import layer_norm


class _Block(NamedTuple):
    """The arguments that the parts of a transformer block share.

    Attributes
    ----------
    layer : Layer
    columns, hidden : int
        The width of the sequence, and the width of the hidden layer.
    activation : str
    probability : float
        The probability that an element is dropped.
    is_norm_first : bool
    epsilon : float
    """

    layer: Layer
    columns: int
    hidden: int
    activation: str
    probability: float
    is_norm_first: bool
    epsilon: float


@ow.transaction()
def transformer_encoder_block(
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
    epsilon: float = 1e-5,
    name: str | None = None,
) -> ow.Variable:
    """Append self-attention and a feed-forward network, both with residual connections.

    ``h = x + attention(norm(x))`` and ``h + fc(activation(fc(norm(h))))``; with
    ``norm_first=False``, as in the paper, ``norm(x + attention(x))`` and so on. With
    ``causal=True`` this is a GPT block. Vaswani et al., Attention Is All You Need, 2017.

    Parameters
    ----------
    input : Variable or str, [n, time, columns]
        Float; `columns` must be known.
    heads : int, at least 1
        Divides `columns`.
    hidden : int, at least 1, optional
        The width within the feed-forward network; ``4 * columns`` by default.
    activation : str
        The type of any operator from ``x`` to ``out``.
    dropout : float in [0, 1)
        The dropout probability of the outputs of both parts and of the activation; attention
        weights are not dropped.
    norm_first : bool
        Whether `layer_norm` precedes each part, instead of following each sum.
    causal, mask, lengths
        As in `layers.attention`.
    epsilon : float, > 0
        The epsilon of `layer_norm`.
    name : str, optional
        The prefix of the layer's variable names: ``<name>_attention``, ``<name>_norm_0``,
        ``<name>_hidden``, ``<name>_columns``.

    Returns
    -------
    Variable
        Shape and dtype of x.

    Examples
    --------
    >>> h = layers.learned_positions(layers.embedding(words, [1000, 64]), 32)  # doctest: +SKIP
    >>> for _ in range(4):  # doctest: +SKIP
    ...     h = layers.transformer_encoder_block(h, heads=4, causal=True, dropout=0.1)
    """
    who = "transformer_encoder_block"
    x = find_input(who, "input", input)
    block = _begin(who, x, hidden, activation, dropout, norm_first, epsilon, name)
    own_name = f"{block.layer.name}_attention"
    x = _clear(who, block.layer, x, lengths)

    def attend(h: ow.Variable) -> ow.Variable:
        return attention(h, heads, mask=mask, lengths=lengths, causal=causal, name=own_name)

    h = _add(block, x, attend, 0)
    return _add(block, h, lambda h: _feed_forward(block, h), 1, block.layer.out)


def _clear(who: str, layer: Layer, x: ow.Variable, lengths: object) -> ow.Variable:
    """Append x with zeros after the lengths, if lengths are given."""
    if lengths is None:
        return x
    inputs = {"lengths": find_input(who, "lengths", lengths, "int64"), "like": x}
    # From the name, `summary` recognizes the following operators as part of the layer.
    seen = operators.append(layer.block, "sequence_mask", inputs, name=layer.part("seen"))
    return clear_behind(x, seen)


@ow.transaction()
def transformer_decoder_block(
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
    epsilon: float = 1e-5,
    name: str | None = None,
) -> ow.Variable:
    """Append self-attention, attention to a memory, and a feed-forward network.

    Parameters
    ----------
    input : Variable or str, [n, time, columns]
        Float; `columns` must be known.
    memory : Variable or str, [n, other time, other columns]
        The output of an encoder.
    heads, hidden, activation, dropout, norm_first, epsilon
        As in `layers.transformer_encoder_block`.
    causal, lengths
        Options of the self-attention of x, as in `layers.attention`.
    memory_mask, memory_lengths
        The keys of the memory that are used, as `mask` and `lengths` in `layers.attention`.
    name : str, optional
        The prefix of the layer's variable names, with ``<name>_memory`` for the second attention.

    Returns
    -------
    Variable
        Shape and dtype of x.
    """
    who = "transformer_decoder_block"
    x = find_input(who, "input", input)
    block = _begin(who, x, hidden, activation, dropout, norm_first, epsilon, name)
    source = find_input(who, "memory", memory)
    prefix = block.layer.name
    x = _clear(who, block.layer, x, lengths)

    def attend(h: ow.Variable) -> ow.Variable:
        return attention(h, heads, lengths=lengths, causal=causal, name=f"{prefix}_attention")

    def attend_memory(h: ow.Variable) -> ow.Variable:
        own_name = f"{prefix}_memory"
        return attention(h, heads, source, mask=memory_mask, lengths=memory_lengths, name=own_name)

    h = _add(block, _add(block, x, attend, 0), attend_memory, 1)
    return _add(block, h, lambda h: _feed_forward(block, h), 2, block.layer.out)


def _begin(
    who: str,
    x: ow.Variable,
    hidden: object,
    activation: object,
    dropout: object,
    norm_first: object,
    epsilon: object,
    name: object,
) -> _Block:
    columns = last_axis(who, x, 3)
    width = 4 * columns if hidden is None else checks.check_int(who, "hidden", hidden, at_least=1)
    return _Block(
        columns=columns,
        hidden=width,
        activation=check_activation(who, activation),
        probability=checks.check_float(who, "dropout", dropout, at_least=0.0, below=1.0),
        is_norm_first=checks.check_bool(who, "norm_first", norm_first),
        epsilon=checks.check_float(who, "epsilon", epsilon, above=0.0),
        layer=begin(who, name),
    )


def _add(
    block: _Block,
    x: ow.Variable,
    part: Callable[[ow.Variable], ow.Variable],
    index: int,
    out: str | None = None,
) -> ow.Variable:
    """Append x plus a function of x, with normalization before it or after the sum."""
    if block.is_norm_first:
        added = _drop(block, part(_norm(block, x, index)))
        return operators.append(block.layer.block, "add", {"x": x, "y": added}, name=out)
    added = _drop(block, part(x))
    both = operators.append(block.layer.block, "add", {"x": x, "y": added})
    return _norm(block, both, index)


def _norm(block: _Block, x: ow.Variable, index: int) -> ow.Variable:
    name = f"{block.layer.name}_norm_{index}"
    return layer_norm(x, begin_norm_axis=2, epsilon=block.epsilon, name=name)


def _feed_forward(block: _Block, x: ow.Variable) -> ow.Variable:
    name = block.layer.name
    kind = block.activation
    h = fc(x, block.hidden, activation=kind, num_flatten_dims=2, name=f"{name}_hidden")
    return fc(_drop(block, h), block.columns, num_flatten_dims=2, name=f"{name}_columns")


def _drop(block: _Block, x: ow.Variable) -> ow.Variable:
    return append_dropout(x, block.probability) if block.probability else x
