"""Third-party models: the smallest model of each family, scaled down for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from mixtures import mixtures
from torch import Tensor, nn


class Entry(NamedTuple):
    """A model and its inputs."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Tensor, ...]]  # of a batch size


MAXVIT = {
    "input_size": (64, 64),
    "stem_channels": 16,
    "partition_size": 2,
    "block_channels": [16, 32, 64, 128],
    "block_layers": [1, 1, 2, 1],
    "head_dim": 8,
    "stochastic_depth_prob": 0.0,
}
"""A reduced configuration, since the published models accept only images of 224 pixels."""

TORCHVISION: dict[str, tuple[int, dict[str, Any]]] = {
    "alexnet": (64, {}),
    "convnext_tiny": (64, {}),
    "densenet121": (64, {}),
    "efficientnet_b0": (64, {}),
    "efficientnet_v2_s": (64, {}),
    "googlenet": (64, {"init_weights": False, "aux_logits": False}),
    "inception_v3": (96, {"init_weights": False, "aux_logits": False}),
    "maxvit_t": (64, MAXVIT),
    "mnasnet0_5": (64, {}),
    "mobilenet_v2": (64, {}),
    "mobilenet_v3_small": (64, {}),
    "regnet_y_400mf": (64, {}),
    "resnet18": (64, {}),
    "resnext50_32x4d": (64, {}),
    "shufflenet_v2_x0_5": (64, {}),
    "squeezenet1_1": (64, {}),
    "swin_t": (64, {}),
    "swin_v2_t": (64, {}),
    "vgg11": (64, {}),
    "vit_b_16": (32, {"image_size": 32}),
    "wide_resnet50_2": (64, {}),
    "deeplabv3_mobilenet_v3_large": (64, {"weights_backbone": None}),
    "fcn_resnet50": (64, {"weights_backbone": None}),
    "lraspp_mobilenet_v3_large": (64, {"weights_backbone": None}),
}
"""The smallest model of each family, with its image size and arguments."""

VIDEO = {"r3d_18": (32, {}), "r2plus1d_18": (32, {}), "mc3_18": (32, {})}
"""Models of torchvision on eight frames."""

TIMM: dict[str, tuple[int, dict[str, Any]]] = {
    "test_convnext": (64, {}),
    "test_efficientnet": (64, {}),
    "test_vit": (64, {}),
    "test_nfnet": (64, {}),
    "test_mambaout": (64, {}),
    "test_byobnet": (64, {}),
    "test_resnet": (64, {}),
    "starnet_s050": (64, {}),
    "test_coatnet": (64, {"img_size": 64}),
    "test_vit_relpos": (64, {"img_size": 64}),
    "dla46x_c": (64, {}),
    "mobilevit_xxs": (64, {}),
    "edgenext_xx_small": (64, {}),
    "lcnet_035": (64, {}),
    "ese_vovnet19b_slim_dw": (64, {}),
    "repghostnet_050": (64, {}),
    "efficientvit_m0": (64, {}),
    "ghostnet_050": (64, {}),
    "regnetx_002": (64, {}),
    "cspnext_tiny": (64, {}),
    "xcit_nano_12_p8_224": (64, {}),
    "cs3darknet_focus_s": (64, {}),
    "efficientvit_b0": (64, {}),
    "swiftformer_xs": (64, {}),
    "efficientformerv2_s0": (64, {"img_size": 64}),
    "pvt_v2_b0": (64, {}),
    "fasternet_t0": (64, {}),
    "lcnetv2_small": (64, {}),
    "inception_next_atto": (64, {}),
    "rexnet_100": (64, {}),
    "pit_ti_224": (64, {"img_size": 64}),
    "hardcorenas_b": (64, {}),
    "repvit_m1": (64, {}),
    "vit_tiny_patch16_dinov3_qkvb": (64, {}),
    "coat_tiny": (64, {"img_size": 64}),
    "convit_tiny": (64, {"img_size": 64}),
}
"""Small models of timm, with image size and arguments."""


_SCHEMAS: list[Any] = []
"""Hooks of operators, which disappear with these."""


@cache
def load_torchvision() -> Any:
    """Return torchvision; its native operators are not loaded if they were built only for CUDA."""
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("torchvision is not installed; make test-torch installs it")
    try:
        torch.ops.load_library(Path(spec.origin).with_name("_C.so"))
    except OSError:
        schemas = torch.library.Library("torchvision", "FRAGMENT")
        schemas.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        schemas.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _SCHEMAS.append(schemas)
    return import_module("torchvision")


def _images(side: int, batch: int, frames: int = 0) -> tuple[Tensor, ...]:
    shape = (batch, 3, frames, side, side) if frames else (batch, 3, side, side)
    return (torch.randn(shape),)


def _torchvision(name: str, **options: Any) -> nn.Module:
    if "num_classes" not in options:
        options["num_classes"] = 5
    models = load_torchvision().models
    if name == "maxvit_t":
        return _without_dropout(models.maxvit.MaxVit(**options))
    model = models.get_model(name, weights=None, **options)
    return _without_dropout(model)


def _timm(name: str, **options: Any) -> nn.Module:
    import timm

    return _without_dropout(timm.create_model(name, num_classes=5, **options))


def _without_dropout(model: nn.Module) -> nn.Module:
    """Set all dropout probabilities to 0, and replace zero weights with random numbers."""
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        if type(module).__name__ == "StochasticDepth":
            module.p = 0.0
        if type(module).__name__ == "DropPath":
            module.drop_prob = 0.0
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1 and not parameter.any():
                nn.init.normal_(parameter, std=0.02)
    return model


def _transformers() -> Iterator[Entry]:
    import transformers as tf

    tokens = partial(torch.randint, 0, 90)
    small = {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}

    def lm(batch: int) -> tuple[Tensor, ...]:
        return (tokens((batch, 12)),)

    def build(kind: Any, config: Any) -> Callable[[], nn.Module]:
        return lambda: _without_dropout(_Logits(kind(config)))

    yield Entry(
        "bert",
        build(
            tf.BertForSequenceClassification,
            tf.BertConfig(**small, intermediate_size=64, max_position_embeddings=32),
        ),
        lm,
    )
    yield Entry(
        "gpt2",
        build(
            tf.GPT2LMHeadModel,
            tf.GPT2Config(
                vocab_size=96,
                n_positions=32,
                n_embd=32,
                n_layer=2,
                n_head=4,
                use_cache=False,
                bos_token_id=0,
                eos_token_id=1,
            ),
        ),
        lm,
    )
    yield Entry(
        "llama",
        build(
            tf.LlamaForCausalLM,
            tf.LlamaConfig(**small, intermediate_size=64, num_key_value_heads=2, use_cache=False),
        ),
        lm,
    )
    yield Entry(
        "t5",
        build(
            tf.T5ForConditionalGeneration,
            tf.T5Config(
                vocab_size=96,
                d_model=32,
                d_kv=8,
                d_ff=64,
                num_layers=2,
                num_heads=4,
                use_cache=False,
            ),
        ),
        lambda batch: (tokens((batch, 12)), tokens((batch, 7))),
    )
    yield Entry(
        "vit",
        build(
            tf.ViTForImageClassification,
            tf.ViTConfig(
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=64,
                image_size=32,
                patch_size=8,
            ),
        ),
        partial(_images, 32),
    )
    yield Entry(
        "whisper",
        build(
            tf.WhisperForConditionalGeneration,
            tf.WhisperConfig(
                vocab_size=96,
                num_mel_bins=16,
                d_model=32,
                encoder_layers=2,
                decoder_layers=2,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                encoder_ffn_dim=64,
                decoder_ffn_dim=64,
                max_source_positions=20,
                max_target_positions=32,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
                decoder_start_token_id=1,
                use_cache=False,
            ),
        ),
        lambda batch: (torch.randn(batch, 16, 40), tokens((batch, 7))),
    )
    for name, kind, config in mixtures():
        yield Entry(name, build(kind, config), lm)


class _Logits(nn.Module):
    """Wraps a transformers model so that it returns only its predictions."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.is_pair = model.config.is_encoder_decoder

    def double(self) -> _Logits:
        """Cast to float64 without grouped products, which PyTorch does not support in float64."""
        if self.model.get_experts_implementation()[""] == "grouped_mm":
            self.model.set_experts_implementation("batched_mm")
        return super().double()

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Return the logits; `y` contains the decoder tokens."""
        given = {"decoder_input_ids": y} if self.is_pair else {}
        logits: Tensor = self.model(x, **given).logits
        return logits


@cache
def entries() -> dict[str, Entry]:
    """Return all models by name, prefixed by the package."""
    load_torchvision()  # other libraries import it too
    found: dict[str, Entry] = {}
    for package, make, models, frames in (
        ("torchvision", _torchvision, TORCHVISION, 0),
        ("torchvision", _torchvision, VIDEO, 8),
        ("timm", _timm, TIMM, 0),
    ):
        for name, (side, options) in models.items():
            found[f"{package}.{name}"] = Entry(
                name, partial(make, name, **options), partial(_images, side, frames=frames)
            )
    for entry in _transformers():
        found[f"transformers.{entry.name}"] = entry
    return found
