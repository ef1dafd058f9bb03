"""Programs of torchvision and transformers models predict like PyTorch, also in new shapes."""

from __future__ import annotations

import copy
import inspect
from typing import Any, Final

import numpy as np
import pytest
import torch
from comparing import NEAR, distance, error
from model_zoo import TORCHVISION, VIDEO, Entry, entries, load_torchvision
from torch import nn
from torch.utils._pytree import tree_leaves
from training import FLOOR, MOST

import opwright as ow
import opwright_torch
from every_case import EVERY

IN_CI: Final = ("torchvision.resnet18", "transformers.mixtral", "transformers.gpt2")

ONE_SIZE: Final = ("maxvit_t", "swin_v2_t", "vit_b_16", "vit")
"""Models that accept only one image size, or branch on the size."""

STEPS: Final = {"swin_t": (32, 32)}
"""Height and width increments, (32, 64) by default, that do not change branches in the model."""


def names() -> list[str]:
    """Return the names of the smallest torchvision model per family and all transformers models."""
    families = [f"torchvision.{name}" for name in (*TORCHVISION, *VIDEO)]
    return families + [name for name in entries() if name.startswith("transformers.")]


def calibrated(entry: Entry) -> nn.Module:
    """Return a model in evaluation mode, with running statistics from some inputs."""
    torch.manual_seed(3)
    model = entry.build().train()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = None
    with torch.no_grad():
        model(*entry.inputs(4))
    return model.eval()


def others(entry: Entry, batch: int) -> tuple[torch.Tensor, ...]:
    """Return inputs with a different length, or with a different size if the model allows it."""
    inputs = entry.inputs(batch)
    if entry.name in ONE_SIZE:
        return inputs
    if inputs[0].ndim == 5:
        return (torch.randn(batch, 3, 6, 48, 40),)
    if inputs[0].ndim == 4:
        height, width = inputs[0].shape[2:]
        higher, wider = STEPS.get(entry.name, (32, 64))
        return (torch.randn(batch, 3, height + higher, width + wider),)
    return tuple(x[:, :5] if x.ndim == 2 else x for x in inputs)


def dimensions(model: nn.Module, entry: Entry) -> Any:
    """Return the dynamic sizes: all, or only the batch size for models with one image size."""
    if entry.name not in ONE_SIZE:
        return True
    (first, *_) = inspect.signature(model.forward).parameters
    return {first: {0: "batch"}}


@pytest.mark.parametrize("name", names() if EVERY else IN_CI)
def test_a_program_predicts_like_the_model(name: str) -> None:
    entry = entries()[name]
    model = calibrated(entry)
    program = opwright_torch.to_program(model, entry.inputs(3), dimensions(model, entry))
    assert not {op.type for op in program.program.global_block().ops if "torch." in op.type}
    precise = copy.deepcopy(model).double()
    for inputs in (entry.inputs(3), others(entry, 2), others(entry, 1)):
        doubles = [x.double() if x.is_floating_point() else x for x in inputs]
        with torch.no_grad():
            (truth,), (theirs,) = (
                tree_leaves(call) for call in (precise(*doubles), model(*inputs))
            )
        (ours,) = program(*inputs)
        assert error(ours, truth) <= MOST * error(theirs, truth) + FLOOR


@pytest.mark.skipif(not EVERY, reason="needs torchvision's detection: OPWRIGHT_EVERY_CASE=1")
def test_a_feature_pyramid_backbone_returns_its_levels_as_results() -> None:
    load_torchvision()
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    torch.manual_seed(0)
    model = resnet_fpn_backbone(backbone_name="resnet18", weights=None).eval()
    program = opwright_torch.to_program(model, (torch.randn(2, 3, 64, 64),), dynamic=True)
    assert [fetch.name.split(".")[-1] for fetch in program.fetches] == ["0", "1", "2", "3", "pool"]
    assert distance(model, program, torch.randn(1, 3, 96, 160)) < NEAR


@pytest.mark.skipif(not EVERY, reason="needs transformers: OPWRIGHT_EVERY_CASE=1")
def test_a_static_cache_is_written_in_place() -> None:
    load_torchvision()
    import transformers
    from transformers.exporters.exporter_dynamo import register_cache_pytrees_for_model

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(
        vocab_size=96, num_hidden_layers=2, num_attention_heads=4, **sizes
    )
    model = transformers.LlamaForCausalLM(config).eval()
    register_cache_pytrees_for_model(model)
    cache = transformers.StaticCache(config=config, max_cache_len=16)
    cache.early_initialization(1, 2, 8, torch.float32, torch.device("cpu"))
    known = inspect.signature(model.forward).parameters
    slot = "past_key_values" if "past_key_values" in known else "cache"
    given = {"input_ids": torch.ones(1, 4, dtype=torch.long), slot: cache}
    program = opwright_torch.to_program(model, given, {"input_ids": {1: "length"}})
    feeds = [feed.name for feed in program.feeds]
    caches = {feed.name: np.zeros(feed.shape, feed.dtype) for feed in program.feeds[1:]}
    step = ow.Network(program.program.global_block()).compile(
        feeds, ["logits"], scope=program.scope, writes=list(caches)
    )
    tokens = torch.randint(0, 96, (1, 9))
    with torch.no_grad():
        wanted = model(input_ids=tokens).logits.numpy()
    for first, last in ((0, 4), (4, 5), (5, 9)):
        (logits,) = step({"input_ids": tokens[:, first:last].numpy(), **caches})
        np.testing.assert_allclose(logits, wanted[:, first:last], rtol=1e-4, atol=1e-5)
