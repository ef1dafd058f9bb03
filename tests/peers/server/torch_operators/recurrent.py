"""Recurrent operators, computed by the functions that the PyTorch modules use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from torch_operators.convert import Function, require

Tensor = torch.Tensor


def _recurrent(kind: str) -> Function:
    """Return the results of lstm, gru or rnn for a complete sequence."""

    def run(
        x: Tensor,
        weight_ih: Sequence[Tensor],
        weight_hh: Sequence[Tensor],
        bidirectional: bool,
        batch_first: bool,
        activation: str = "tanh",
        bias_ih: Sequence[Tensor] = (),
        bias_hh: Sequence[Tensor] = (),
        h0: Tensor | None = None,
        c0: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> Any:
        require(x.numel() > 0, "sequences without elements")
        require(lengths is None or bool((lengths > 0).all()), "sequences of no steps")
        n_batch = x.shape[0 if batch_first else 1]
        zeros = torch.zeros(len(weight_ih), n_batch, weight_hh[0].shape[1], dtype=x.dtype)
        biases = [_or_zeros(listed, weight_ih) for listed in (bias_ih, bias_hh)]
        parameters = [p for group in zip(weight_ih, weight_hh, *biases, strict=True) for p in group]
        state = [zeros if h0 is None else h0]
        if kind == "lstm":
            state.append(zeros if c0 is None else c0)
        layers = len(weight_ih) // (2 if bidirectional else 1)
        function = getattr(torch, f"rnn_{activation}" if kind == "rnn" else kind)
        options = (parameters, True, layers, 0.0, False, bidirectional)
        if lengths is None:
            return function(x, _given(kind, state), *options, batch_first)
        packed = pack_padded_sequence(x, lengths.long(), batch_first, enforce_sorted=False)
        order, back = packed.sorted_indices, packed.unsorted_indices
        given = _given(kind, [one.index_select(1, order) for one in state])
        data, *last = function(packed.data, packed.batch_sizes, given, *options)
        steps = x.shape[1 if batch_first else 0]
        out, _ = pad_packed_sequence(packed._replace(data=data), batch_first, 0.0, steps)
        return out, *(one.index_select(1, back) for one in last)

    return run


def _given(kind: str, state: list[Tensor]) -> Any:
    """Return a state in the form of the PyTorch function: a list for lstm, otherwise a tensor."""
    return state if kind == "lstm" else state[0]


def _or_zeros(biases: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
    return list(biases) or [torch.zeros(w.shape[0], dtype=w.dtype) for w in weights]


def _lstm_cell(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None = None,
    bias_hh: Tensor | None = None,
) -> Any:
    return torch.lstm_cell(x, [h, c], weight_ih, weight_hh, *_both(weight_ih, bias_ih, bias_hh))


def _gru_cell(
    x: Tensor,
    h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None = None,
    bias_hh: Tensor | None = None,
) -> Tensor:
    return torch.gru_cell(x, h, weight_ih, weight_hh, *_both(weight_ih, bias_ih, bias_hh))


def _both(weight: Tensor, *biases: Tensor | None) -> list[Tensor]:
    zeros = torch.zeros(weight.shape[0], dtype=weight.dtype)
    return [zeros if bias is None else bias for bias in biases]


OPERATORS: dict[str, Function] = {
    "lstm": _recurrent("lstm"),
    "gru": _recurrent("gru"),
    "rnn": _recurrent("rnn"),
    "lstm_cell": _lstm_cell,
    "gru_cell": _gru_cell,
}
