"""Inference of ResNet-18, one image of 224×224, float32; ours also computes in bfloat16."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from contest import Goal, NotAvailableError, Timed, Workload
from networks.resnet18 import BLOCKS, CLASSES, EPSILON, STEM, Conv, make_image, make_parameters


def timed(call: Any) -> Timed:
    """Return a call with the logits that it gives."""
    return Timed(call, values=np.asarray(call()).ravel().tolist())


def build_opwright(layers: Any, dtype: str) -> tuple[Any, dict[str, np.ndarray]]:
    """Append the network to the default program; return its logits, and the parameters by name."""
    import opwright as ow

    values = make_parameters()
    initial = {"fc_w_param": values["fc.weight"], "fc_b_param": values["fc.bias"]}

    def conv_bn(x: Any, conv: Conv, activation: str | None) -> Any:
        h = layers.conv2d(
            x,
            conv.filters,
            conv.kernel,
            strides=conv.stride,
            paddings=conv.padding,
            bias=False,
            name=conv.name,
        )
        normal = f"{conv.name}_bn"
        initial[f"{conv.name}_w_param"] = values[f"{conv.name}.weight"]
        initial[f"{normal}_w_param"] = values[f"{conv.name}.scale"]
        initial[f"{normal}_b_param"] = values[f"{conv.name}.bias"]
        initial[f"{normal}_mean"] = values[f"{conv.name}.mean"]
        initial[f"{normal}_variance"] = values[f"{conv.name}.variance"]
        return layers.batch_norm(
            h, epsilon=EPSILON, activation=activation, training=False, name=normal
        )

    h = conv_bn(layers.data("x", shape=[None, 3, 224, 224], dtype=dtype), STEM, "relu")
    h = layers.max_pool2d(h, kernel=3, strides=2, paddings=1)
    for block in BLOCKS:
        short = conv_bn(h, block.shortcut, None) if block.shortcut else h
        inner = conv_bn(conv_bn(h, block.first, "relu"), block.second, None)
        h = layers.relu(ow.ops.add(inner, short))
    h = layers.flatten(layers.adaptive_avg_pool2d(h, output_size=1))
    return layers.fc(h, size=CLASSES, name="fc"), initial


def opwright(dtype: str = "float32") -> Timed:
    """Layers in inference mode and one compiled network."""
    import opwright as ow
    from opwright.op import dtype_to_numpy
    from opwright_nn import layers

    scope, numpy_dtype = ow.Scope(), dtype_to_numpy(dtype)
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        logits, initial = build_opwright(layers, dtype)
    for name, value in initial.items():
        variable = main.global_block().var(name)
        scope.var(name).set(value.astype(dtype_to_numpy(variable.dtype)))
    image = make_image().astype(numpy_dtype)
    call = ow.Network(main.global_block()).compile(feed=["x"], fetch=[logits], scope=scope)
    return timed(lambda: call(x=image)[0])


def opwright_bfloat16() -> Timed:
    """The same with all arrays in bfloat16, where the processor can multiply them."""
    flags = Path("/proc/cpuinfo").read_text().split()
    if "avx512_bf16" not in flags and "amx_bf16" not in flags:
        raise NotAvailableError("this processor has no bfloat16 instructions")
    return opwright("bfloat16")


def torch_module() -> Any:
    """Return the network as a torch.nn.Module in inference mode."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    values = {name: torch.from_numpy(value) for name, value in make_parameters().items()}

    class ConvBn(nn.Sequential):
        def __init__(self, conv: Conv) -> None:
            super().__init__(
                nn.Conv2d(
                    conv.channels, conv.filters, conv.kernel, conv.stride, conv.padding, bias=False
                ),
                nn.BatchNorm2d(conv.filters, eps=EPSILON),
            )
            of = {key: values[f"{conv.name}.{key}"] for key in ("weight", "scale", "bias")}
            self[0].weight.data = of["weight"]
            self[1].weight.data, self[1].bias.data = of["scale"], of["bias"]
            self[1].running_mean = values[f"{conv.name}.mean"]
            self[1].running_var = values[f"{conv.name}.variance"]

    class Residual(nn.Module):
        def __init__(self, block: Any) -> None:
            super().__init__()
            self.first, self.second = ConvBn(block.first), ConvBn(block.second)
            self.shortcut = ConvBn(block.shortcut) if block.shortcut else nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))

    head = nn.Linear(512, CLASSES)
    head.weight.data, head.bias.data = values["fc.weight"].T.contiguous(), values["fc.bias"]
    stem = [ConvBn(STEM), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    body = [Residual(block) for block in BLOCKS]
    return nn.Sequential(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head).eval()


def torch(channels_last: bool = False, how: str = "eager") -> Timed:
    """Eager, compiled by torch.compile, or traced and optimized for inference."""
    import torch

    torch.set_grad_enabled(False)
    module, x = torch_module(), torch.from_numpy(make_image())
    if channels_last:
        module, x = (value.to(memory_format=torch.channels_last) for value in (module, x))
    if how == "compile":
        torch._inductor.config.freezing = True
        module = torch.compile(module)
    elif how == "traced":
        module = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(module, x)))
    return timed(lambda: module(x).numpy())


def onnxruntime() -> Timed:
    """A session of Conv, BatchNormalization, Relu, Add nodes, NumPy in and out."""
    from onnx import TensorProto, helper

    from peers import open_session

    values, nodes = make_parameters(), []

    def add(kind: str, *inputs: str, **attributes: Any) -> str:
        out = f"h{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def conv_bn(x: str, conv: Conv) -> str:
        h = add(
            "Conv", x, f"{conv.name}.weight", kernel_shape=[conv.kernel] * 2,
            strides=[conv.stride] * 2, pads=[conv.padding] * 4,
        )  # fmt: skip
        states = [f"{conv.name}.{key}" for key in ("scale", "bias", "mean", "variance")]
        return add("BatchNormalization", h, *states, epsilon=EPSILON)

    h = add("Relu", conv_bn("x", STEM))
    h = add("MaxPool", h, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for block in BLOCKS:
        short = conv_bn(h, block.shortcut) if block.shortcut else h
        inner = conv_bn(add("Relu", conv_bn(h, block.first)), block.second)
        h = add("Relu", add("Add", inner, short))
    h = add("Gemm", add("Flatten", add("GlobalAveragePool", h)), "fc.weight", "fc.bias")
    shapes = {"x": [1, 3, 224, 224]}, {h: [1, CLASSES]}
    session = open_session(nodes, *shapes, values, TensorProto.FLOAT)
    feed = {"x": make_image()}
    return timed(lambda: session.run(None, feed)[0])


WORKLOADS = [
    Workload(
        "resnet18-infer-1",
        "ResNet-18 inference, batch 1, 224×224",
        "ms",
        {
            "opwright": opwright,
            "opwright bfloat16": opwright_bfloat16,
            "onnxruntime": onnxruntime,
            "torch": torch,
            "torch channels_last": partial(torch, channels_last=True),
            "torch.jit traced": partial(torch, how="traced"),
            "torch.compile": partial(torch, how="compile"),
        },
        {"opwright": [Goal(ratio=1.0)], "opwright bfloat16": [Goal(ratio=0.5)]},
        tolerance=1e-3,
        # Eight bits of mantissa, through 18 layers.
        tolerances={"opwright bfloat16": 0.1},
    ),
]
