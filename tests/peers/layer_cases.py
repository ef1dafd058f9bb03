"""Layers and the corresponding PyTorch modules: how to build both and match weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import opwright as ow
from opwright_nn import layers

Arrays = dict[str, Any]


@dataclass
class LayerCase:
    """A layer, and the corresponding PyTorch module.

    Attributes
    ----------
    name : str
    append : callable
        From the inputs to an output, or a tuple of them.
    inputs : dict
        Shape of floats by name, or an array.
    module : str
        An expression.
    call : str
        From ``module`` and ``inputs``.
    state : callable
        From parameters to the module's state; linear, so it maps gradients, too.
    """

    name: str
    append: Callable[..., Any]
    inputs: Mapping[str, Any]
    module: str
    call: str = "module(*inputs)"
    state: Callable[[Arrays], Arrays] = field(default=lambda p: {})


def recurrent_state(p: Arrays) -> Arrays:
    """Name the parameters of a recurrent layer as PyTorch does."""
    state = {}
    for name, value in p.items():
        prefix, kind = name.removesuffix("_param").split("_", 1)[1], ""
        prefix, letter, kind = prefix.rsplit("_", 2)
        layer = prefix.split("_")[1] if "_" in prefix else "0"
        reverse = "_reverse" if prefix.endswith("reverse") else ""
        state[f"{'weight' if letter == 'w' else 'bias'}_{kind}_l{layer}{reverse}"] = value
    return state


def attention_state(p: Arrays, layer: str = "attention_0", prefix: str = "") -> Arrays:
    """Name the parameters of attention as PyTorch does."""
    kinds = [k for k in ("qkv", "q", "kv") if f"{layer}_{k}_w_param" in p]
    weight = np.concatenate([p[f"{layer}_{k}_w_param"] for k in kinds], axis=1)
    return {
        f"{prefix}in_proj_weight": weight.T,
        f"{prefix}in_proj_bias": np.concatenate([p[f"{layer}_{k}_b_param"] for k in kinds]),
        f"{prefix}out_proj.weight": p[f"{layer}_w_param"].T,
        f"{prefix}out_proj.bias": p[f"{layer}_b_param"],
    }


def block_state(p: Arrays, layer: str, with_memory: bool) -> Arrays:
    """Name the parameters of a transformer block as PyTorch does."""
    state = attention_state(p, f"{layer}_attention", "self_attn.")
    if with_memory:
        state |= attention_state(p, f"{layer}_memory", "multihead_attn.")
    for index in range(2 + with_memory):
        for own, theirs in (("w", "weight"), ("b", "bias")):
            state[f"norm{index + 1}.{theirs}"] = p[f"{layer}_norm_{index}_{own}_param"]
    for own, theirs in (("hidden", "linear1"), ("columns", "linear2")):
        state[f"{theirs}.weight"] = p[f"{layer}_{own}_w_param"].T
        state[f"{theirs}.bias"] = p[f"{layer}_{own}_b_param"]
    return state


def weight_and_bias(p: Arrays) -> Arrays:
    """Name a weight and a bias as PyTorch does."""
    kinds = {"w_param": "weight", "b_param": "bias"}
    return {kinds[name[-7:]]: value for name, value in p.items()}


def slopes(p: Arrays) -> Arrays:
    """Name the slopes of a PReLU layer as PyTorch does."""
    return {"weight": p["prelu_0_w_param"].reshape(-1)}


LENGTHS = np.array([5, 2, 4])
PADDED = (
    "(lambda r: (pad_packed_sequence(r[0], batch_first=True)[0], *({rest})))"
    "(module(pack_padded_sequence(inputs[0], inputs[1], batch_first=True, enforce_sorted=False)))"
)
PAST = np.tril(np.ones((4, 4), bool))
X3 = {"x": (3, 5, 4)}
STATES = {"h0": (4, 3, 6), "c0": (4, 3, 6)}


def two(layer: Callable[..., Any]) -> Callable[..., Any]:
    """Return a two-layer bidirectional version of a recurrent layer."""
    return lambda x, **more: layer(x, 6, num_layers=2, bidirectional=True, **more)


def images(rank: int, channels: int = 4) -> dict[str, Any]:
    """Return the input shape for convolution and pooling layers."""
    return {"x": (2, channels, *(7, 6, 5)[:rank])}


def within(lengths: ow.Variable, x: ow.Variable, out: ow.Variable) -> ow.Variable:
    """Return `out` with zeros in the padding, as in opwright."""
    seen = ow.ops.sequence_mask(lengths, x)
    return ow.ops.where(ow.ops.unsqueeze(seen, axis=[2]), out, ow.ops.fill_like(out, value=0.0))


CASES = [
    LayerCase(
        "lstm",
        lambda x, h0, c0: two(layers.lstm)(x, h0=h0, c0=c0),
        X3 | STATES,
        "nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True)",
        "(lambda r: (r[0], *r[1]))(module(inputs[0], (inputs[1], inputs[2])))",
        recurrent_state,
    ),
    LayerCase(
        "lstm with lengths",
        lambda x, lengths: two(layers.lstm)(x, lengths=lengths),
        X3 | {"lengths": LENGTHS},
        "nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True)",
        PADDED.format(rest="r[1]"),
        recurrent_state,
    ),
    LayerCase(
        "gru with lengths",
        lambda x, lengths: two(layers.gru)(x, lengths=lengths),
        X3 | {"lengths": LENGTHS},
        "nn.GRU(4, 6, 2, bidirectional=True, batch_first=True)",
        PADDED.format(rest="(r[1],)"),
        recurrent_state,
    ),
    LayerCase(
        "gru, time first",
        lambda x: layers.gru(x, 6, batch_first=False),
        X3,
        "nn.GRU(4, 6)",
        state=recurrent_state,
    ),
    LayerCase(
        "rnn",
        lambda x: two(layers.rnn)(x, activation="relu"),
        X3,
        "nn.RNN(4, 6, 2, bidirectional=True, batch_first=True, nonlinearity='relu')",
        state=recurrent_state,
    ),
    LayerCase(
        "attention",
        lambda x: layers.attention(x, 2, causal=True),
        {"x": (3, 4, 6)},
        "nn.MultiheadAttention(6, 2, batch_first=True)",
        "module(inputs[0], inputs[0], inputs[0], attn_mask=torch.triu(torch.ones(4, 4), 1) > 0)[0]",
        attention_state,
    ),
    LayerCase(
        "attention by a mask",
        lambda x, mask: layers.attention(x, 2, mask=mask),
        {"x": (3, 4, 6), "mask": PAST},
        "nn.MultiheadAttention(6, 2, batch_first=True)",
        "module(inputs[0], inputs[0], inputs[0], attn_mask=~inputs[1])[0]",
        attention_state,
    ),
    LayerCase(
        "attention to a memory",
        lambda x, memory, lengths: layers.attention(x, 3, memory, lengths=lengths),
        {"x": (3, 4, 6), "memory": (3, 5, 6), "lengths": LENGTHS},
        "nn.MultiheadAttention(6, 3, batch_first=True)",
        "module(inputs[0], inputs[1], inputs[1], "
        "key_padding_mask=torch.arange(5) >= inputs[2][:, None])[0]",
        attention_state,
    ),
    *(
        LayerCase(
            f"encoder block, norm first {first}",
            lambda x, lengths, first=first: within(
                lengths,
                x,
                layers.transformer_encoder_block(
                    x, 2, hidden=9, activation="relu", norm_first=first, lengths=lengths
                ),
            ),
            {"x": (3, 5, 6), "lengths": LENGTHS},
            f"nn.TransformerEncoderLayer(6, 2, 9, 0.0, batch_first=True, norm_first={first})",
            "module(inputs[0], src_key_padding_mask=torch.arange(5) >= inputs[1][:, None])"
            " * (torch.arange(5) < inputs[1][:, None])[..., None]",
            lambda p: block_state(p, "transformer_encoder_block_0", False),
        )
        for first in (True, False)
    ),
    *(
        LayerCase(
            f"decoder block, norm first {first}",
            lambda x, memory, first=first: layers.transformer_decoder_block(
                x, memory, 2, hidden=9, activation="gelu", norm_first=first
            ),
            {"x": (3, 4, 6), "memory": (3, 5, 6)},
            "nn.TransformerDecoderLayer(6, 2, 9, 0.0, F.gelu, batch_first=True, "
            f"norm_first={first})",
            "module(*inputs, tgt_mask=torch.triu(torch.ones(4, 4), 1) > 0)",
            lambda p: block_state(p, "transformer_decoder_block_0", True),
        )
        for first in (True, False)
    ),
    *(
        LayerCase(
            f"conv{rank}d",
            lambda x, rank=rank: getattr(layers, f"conv{rank}d")(
                x, 6, 3, 2, 1, dilations=2, groups=2
            ),
            images(rank),
            f"nn.Conv{rank}d(4, 6, 3, 2, 1, 2, 2)",
            state=weight_and_bias,
        )
        for rank in (1, 2, 3)
    ),
    *(
        LayerCase(
            f"conv{rank}d_transpose",
            lambda x, rank=rank: getattr(layers, f"conv{rank}d_transpose")(
                x, 6, 3, 2, 1, output_padding=1, groups=2
            ),
            images(rank),
            f"nn.ConvTranspose{rank}d(4, 6, 3, 2, 1, 1, 2)",
            state=weight_and_bias,
        )
        for rank in (1, 2, 3)
    ),
    *(
        LayerCase(
            f"max_pool{rank}d",
            lambda x, rank=rank: getattr(layers, f"max_pool{rank}d")(x, 3, 2, 1),
            images(rank),
            f"nn.MaxPool{rank}d(3, 2, 1)",
        )
        for rank in (1, 2, 3)
    ),
    *(
        LayerCase(
            f"avg_pool{rank}d",
            lambda x, rank=rank: getattr(layers, f"avg_pool{rank}d")(x, 3, 2, 1),
            images(rank),
            f"nn.AvgPool{rank}d(3, 2, 1, count_include_pad=False)",
        )
        for rank in (1, 2, 3)
    ),
    LayerCase(
        "adaptive_max_pool2d",
        lambda x: layers.adaptive_max_pool2d(x, (3, 2)),
        images(2),
        "nn.AdaptiveMaxPool2d((3, 2))",
    ),
    LayerCase(
        "adaptive_avg_pool2d",
        lambda x: layers.adaptive_avg_pool2d(x, (3, 2)),
        images(2),
        "nn.AdaptiveAvgPool2d((3, 2))",
    ),
    LayerCase("prelu", lambda x: layers.prelu(x, True), images(2), "nn.PReLU(4)", state=slopes),
    LayerCase(
        "bilinear",
        lambda x, y: layers.bilinear(x, y, 6),
        {"x": (3, 4), "y": (3, 5)},
        "nn.Bilinear(4, 5, 6)",
        state=weight_and_bias,
    ),
    LayerCase(
        "batch_norm", layers.batch_norm, images(2), "nn.BatchNorm2d(4)", state=weight_and_bias
    ),
    LayerCase(
        "group_norm",
        lambda x: layers.group_norm(x, 2),
        images(2),
        "nn.GroupNorm(2, 4)",
        state=weight_and_bias,
    ),
    LayerCase(
        "instance_norm",
        layers.instance_norm,
        images(2),
        "nn.InstanceNorm2d(4, affine=True)",
        state=weight_and_bias,
    ),
    LayerCase(
        "layer_norm",
        lambda x: layers.layer_norm(x, begin_norm_axis=2),
        images(2),
        "nn.LayerNorm((7, 6))",
        state=weight_and_bias,
    ),
    LayerCase("rms_norm", layers.rms_norm, X3, "nn.RMSNorm(4, eps=1e-5)", state=weight_and_bias),
]
LABELS = np.array([2, 0, -100, 1, 2])
WEIGHTS = [0.5, 2.0, 1.5]


def entropy(name: str, labels: Any, shape: tuple[int, ...], call: str, **options: Any) -> LayerCase:
    """Return a case of softmax cross entropy."""
    return LayerCase(
        f"cross entropy, {name}",
        lambda x, label: layers.softmax_with_cross_entropy(x, label, **options),
        {"x": shape, "label": labels},
        "None",
        f"F.cross_entropy(inputs[0], inputs[1], {call})",
    )


SOFT = np.random.default_rng(5).dirichlet([1.0, 1.0, 1.0], 5)
TORCH_WEIGHTS = f"weight=torch.tensor({WEIGHTS})"
CASES += [
    entropy("mean", LABELS, (5, 3), "", reduction="mean"),
    entropy("rows", LABELS, (5, 3), "reduction='none'"),
    entropy("weights", LABELS, (5, 3), TORCH_WEIGHTS, reduction="mean", class_weights=WEIGHTS),
    entropy(
        "smoothing, ignored class",
        LABELS.clip(0),
        (5, 3),
        f"{TORCH_WEIGHTS}, ignore_index=1, label_smoothing=0.1",
        reduction="mean",
        class_weights=WEIGHTS,
        ignore_index=1,
        label_smoothing=0.1,
    ),
    entropy(
        "smoothed sum",
        LABELS,
        (5, 3),
        "label_smoothing=0.2, reduction='sum'",
        reduction="sum",
        label_smoothing=0.2,
    ),
    entropy(
        "distributions",
        SOFT,
        (5, 3),
        f"{TORCH_WEIGHTS}, label_smoothing=0.1",
        soft_label=True,
        reduction="mean",
        class_weights=WEIGHTS,
        label_smoothing=0.1,
    ),
    entropy(
        "of pixels",
        LABELS.clip(0)[:4].reshape(1, 2, 2),
        (1, 3, 2, 2),
        f"{TORCH_WEIGHTS}, label_smoothing=0.1",
        axis=1,
        reduction="mean",
        class_weights=WEIGHTS,
        label_smoothing=0.1,
    ),
    LayerCase(
        "sigmoid cross entropy",
        lambda x, label: layers.sigmoid_cross_entropy_with_logits(
            x, label, positive_weight=3.0, reduction="mean"
        ),
        {"x": (5, 3), "label": SOFT},
        "None",
        "F.binary_cross_entropy_with_logits(*inputs, pos_weight=torch.tensor(3.0))",
    ),
]
