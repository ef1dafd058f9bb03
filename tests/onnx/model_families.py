"""The smallest model of each family in torchvision, timm and transformers, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.library import Library

_SCHEMAS = Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):  # missing in CUDA builds of torchvision without CUDA
    if not hasattr(torch.ops.torchvision, _name):
        _SCHEMAS.define(f"{_name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")

import timm  # noqa: E402
import torchvision.models as vision  # noqa: E402
import transformers  # noqa: E402


class Case(NamedTuple):
    """Functions that build a model, and its inputs for a batch size."""

    build: Callable[[], torch.nn.Module]
    make_inputs: Callable[[int], tuple[torch.Tensor, ...]]


def make_images(batch: int, size: int = 64, channels: int = 3) -> tuple[torch.Tensor, ...]:
    """Return images of random pixels, float32 [batch, channels, size, size]."""
    return (torch.randn(batch, channels, size, size),)


def make_ids(batch: int, length: int = 12, n: int = 1) -> tuple[torch.Tensor, ...]:
    """Return n tensors of token ids, int64 [batch, length]."""
    return tuple(torch.randint(3, 90, (batch, length)) for _ in range(n))


def make_masked_ids(batch: int) -> tuple[torch.Tensor, ...]:
    """Return token ids, and a mask that hides the last tokens of the first text."""
    (ids,) = make_ids(batch)
    mask = torch.ones_like(ids)
    mask[0, -4:] = 0
    return ids, mask


def make_video(batch: int) -> tuple[torch.Tensor, ...]:
    """Return clips, float32 [batch, 3, 16, 64, 64]."""
    return (torch.randn(batch, 3, 16, 64, 64),)


def make_pairs(batch: int) -> tuple[torch.Tensor, ...]:
    """Return two images for each example."""
    return (*make_images(batch, 128), *make_images(batch, 128))


def of_vision(name: str, size: int = 64, **options: Any) -> Case:
    """Return a torchvision model for square images."""
    build = partial(vision.get_model, name, weights=None, **options)
    return Case(build, partial(make_images, size=size))


def of_timm(name: str, size: int = 224) -> Case:
    """Return a timm model for square images."""
    return Case(partial(timm.create_model, name, num_classes=10), partial(make_images, size=size))


TEXT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT |= {"intermediate_size": 48}
GPT = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4}
PAIR = {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2}
PAIR |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
PAIR |= {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48}


class Positional(torch.nn.Module):
    """A transformers model whose inputs are passed by position, without a cache."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Return the result of the model."""
        return self.model(**dict(zip(self.names, inputs, strict=True)), return_dict=False)


def of_text(
    family: str,
    head: str,
    names: tuple[str, ...] = ("input_ids", "attention_mask"),
    make_inputs: Callable[[int], tuple[torch.Tensor, ...]] = make_masked_ids,
    **options: Any,
) -> Case:
    """Return a transformers model, built from a configuration with two narrow layers."""

    def build() -> torch.nn.Module:
        config = getattr(transformers, f"{family}Config")(**options)
        config.use_cache = False
        return Positional(getattr(transformers, f"{family}{head}")(config), names)

    return Case(build, make_inputs)


def _make_translation(batch: int) -> tuple[torch.Tensor, ...]:
    return (*make_masked_ids(batch), *make_ids(batch, 7))


def _make_sound(batch: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, 2000),)


def _make_spectrum(batch: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, 80, 60), *make_ids(batch, 7))


_TRANSLATION = ("input_ids", "attention_mask", "decoder_input_ids")
_PIXELS: dict[str, Any] = {"names": ("pixel_values",), "make_inputs": make_images}

VISION = {
    "alexnet": of_vision("alexnet", 224),
    "convnext_tiny": of_vision("convnext_tiny"),
    "densenet121": of_vision("densenet121"),
    "efficientnet_b0": of_vision("efficientnet_b0"),
    "efficientnet_v2_s": of_vision("efficientnet_v2_s"),
    "googlenet": of_vision("googlenet", init_weights=True, aux_logits=False),
    "inception_v3": of_vision("inception_v3", 96, init_weights=True, aux_logits=False),
    "maxvit_t": of_vision("maxvit_t", 224),
    "mnasnet0_5": of_vision("mnasnet0_5"),
    "mobilenet_v2": of_vision("mobilenet_v2"),
    "mobilenet_v3_small": of_vision("mobilenet_v3_small"),
    "regnet_x_400mf": of_vision("regnet_x_400mf"),
    "regnet_y_400mf": of_vision("regnet_y_400mf"),
    "resnet18": of_vision("resnet18"),
    "resnext50_32x4d": of_vision("resnext50_32x4d"),
    "wide_resnet50_2": of_vision("wide_resnet50_2"),
    "shufflenet_v2_x0_5": of_vision("shufflenet_v2_x0_5"),
    "squeezenet1_1": of_vision("squeezenet1_1"),
    "swin_t": of_vision("swin_t"),
    "swin_v2_t": of_vision("swin_v2_t"),
    "vgg11": of_vision("vgg11", 224),
    "vit_b_16": of_vision("vit_b_16", image_size=64),
    "deeplabv3": of_vision("deeplabv3_mobilenet_v3_large", weights_backbone=None),
    "fcn_resnet50": of_vision("fcn_resnet50", weights_backbone=None),
    "lraspp": of_vision("lraspp_mobilenet_v3_large", weights_backbone=None),
    "r3d_18": Case(partial(vision.get_model, "r3d_18"), make_video),
    "s3d": Case(partial(vision.get_model, "s3d"), lambda n: (torch.randn(n, 3, 16, 224, 224),)),
    "mvit_v1_b": Case(
        partial(vision.get_model, "mvit_v1_b"), lambda n: (torch.randn(n, 3, 16, 224, 224),)
    ),
    "raft_small": Case(partial(vision.get_model, "raft_small"), make_pairs),
}
"""The smallest model of each torchvision family, except detectors, which need custom operators."""

TIMM = {
    name: of_timm(name, size)
    for name, size in {
        "beit_base_patch16_224": 224,
        "botnet26t_256": 256,
        "caformer_s18": 64,
        "cait_xxs24_224": 224,
        "coat_tiny": 224,
        "convit_tiny": 224,
        "convmixer_768_32": 64,
        "convnextv2_atto": 64,
        "crossvit_tiny_240": 240,
        "cspresnet50": 64,
        "davit_tiny": 224,
        "deit_tiny_patch16_224": 224,
        "dla46_c": 64,
        "edgenext_xx_small": 64,
        "efficientformer_l1": 224,
        "efficientvit_b0": 64,
        "ese_vovnet19b_slim_dw": 64,
        "fasternet_t0": 64,
        "fastvit_t8": 64,
        "ghostnetv2_100": 64,
        "gmlp_ti16_224": 224,
        "halonet_h1": 256,
        "hiera_tiny_224": 224,
        "hrnet_w18_small": 64,
        "inception_next_atto": 64,
        "lambda_resnet26t": 256,
        "lcnet_050": 64,
        "levit_128s": 224,
        "mambaout_femto": 64,
        "mixer_s32_224": 224,
        "mobilenetv4_conv_small": 64,
        "mobileone_s0": 64,
        "mobilevit_xxs": 64,
        "mobilevitv2_050": 64,
        "nfnet_l0": 64,
        "poolformer_s12": 64,
        "pvt_v2_b0": 64,
        "repvit_m0_9": 64,
        "res2net50_14w_8s": 64,
        "resmlp_12_224": 224,
        "resnest14d": 64,
        "rexnet_100": 64,
        "sequencer2d_s": 224,
        "skresnet18": 64,
        "starnet_s1": 64,
        "swiftformer_xs": 224,
        "tiny_vit_5m_224": 224,
        "tinynet_e": 64,
        "tnt_s_patch16_224": 224,
        "twins_svt_small": 224,
        "visformer_tiny": 224,
        "xcit_nano_12_p16_224": 224,
    }.items()
}

TEXTS = {
    "albert": of_text("Albert", "Model", embedding_size=16, **TEXT),
    "bart": of_text("Bart", "Model", _TRANSLATION, _make_translation, **PAIR),
    "bert": of_text("Bert", "ForSequenceClassification", **TEXT),
    "bloom": of_text("Bloom", "ForCausalLM", vocab_size=99, hidden_size=32, n_layer=2, n_head=4),
    "clip": of_text(
        "CLIPText", "Model", **(TEXT | {"eos_token_id": 2, "max_position_embeddings": 20})
    ),
    "convbert": of_text("ConvBert", "Model", embedding_size=32, **TEXT),
    "deberta_v2": of_text(
        "DebertaV2", "Model", relative_attention=True, pos_att_type=["p2c", "c2p"], **TEXT
    ),
    "distilbert": of_text(
        "DistilBert", "Model", vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=48
    ),
    "electra": of_text("Electra", "Model", embedding_size=16, **TEXT),
    "gemma": of_text("Gemma", "ForCausalLM", head_dim=8, num_key_value_heads=2, **TEXT),
    "gpt2": of_text("GPT2", "LMHeadModel", **GPT),
    "gpt_neox": of_text("GPTNeoX", "ForCausalLM", **TEXT),
    "llama": of_text("Llama", "ForCausalLM", num_key_value_heads=2, **TEXT),
    "mamba": of_text(
        "Mamba",
        "ForCausalLM",
        ("input_ids",),
        make_ids,
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        state_size=8,
    ),
    "mistral": of_text("Mistral", "ForCausalLM", num_key_value_heads=2, **TEXT),
    "mobilebert": of_text("MobileBert", "Model", **TEXT),
    "mpnet": of_text("MPNet", "Model", **TEXT),
    "opt": of_text(
        "OPT",
        "ForCausalLM",
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=48,
        word_embed_proj_dim=32,
    ),
    "phi": of_text("Phi", "ForCausalLM", **TEXT),
    "qwen2": of_text("Qwen2", "ForCausalLM", num_key_value_heads=2, **TEXT),
    "roberta": of_text("Roberta", "Model", **TEXT),
    "squeezebert": of_text("SqueezeBert", "Model", embedding_size=32, **TEXT),
    "t5": of_text(
        "T5",
        "Model",
        _TRANSLATION,
        _make_translation,
        vocab_size=99,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
    ),
    "wav2vec2": of_text(
        "Wav2Vec2",
        "Model",
        ("input_values",),
        _make_sound,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
        conv_dim=(32,) * 7,
        mask_time_prob=0.0,
        **TEXT,
    ),
    "whisper": of_text(
        "Whisper",
        "Model",
        ("input_features", "decoder_input_ids"),
        _make_spectrum,
        max_source_positions=30,
        max_target_positions=20,
        pad_token_id=0,
        decoder_start_token_id=1,
        bos_token_id=1,
        eos_token_id=2,
        **PAIR,
    ),
    "xlnet": of_text("XLNet", "Model", vocab_size=99, d_model=32, n_layer=2, n_head=4, d_inner=48),
    "vit": of_text("ViT", "Model", image_size=64, **_PIXELS, **TEXT),
    "segformer": of_text("Segformer", "ForSemanticSegmentation", **_PIXELS),
    "mobilevit": of_text("MobileViT", "Model", image_size=64, **_PIXELS),
    "dinov2": of_text("Dinov2", "Model", image_size=56, patch_size=14, **_PIXELS, **TEXT),
}
FAMILIES = VISION | TIMM | TEXTS
