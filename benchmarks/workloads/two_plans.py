"""A forward and a later backward call compared with one plan, and the memory kept in between."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from networks import gpt
from networks.image_programs import append_network
from networks.images import RESNET18
from workload import Goal, Timed, Workload

RESNET_BATCH, RESNET_SIZE = 8, 224
MLP_BATCH, MLP_SIZES = 64, (512, 256)


def append_resnet18() -> tuple[Any, Any, dict[str, np.ndarray], np.ndarray]:
    """Append ResNet-18; return its input, its logits, its parameters and a batch."""
    from opwright_nn import layers

    shape = (RESNET_BATCH, 3, RESNET_SIZE, RESNET_SIZE)
    x = layers.data("x", shape=[None, *shape[1:]])
    logits, initial = append_network(RESNET18, x, training=True)
    return x, logits, initial, np.random.default_rng(28).standard_normal(shape, dtype="float32")


def append_gpt() -> tuple[Any, Any, dict[str, np.ndarray], np.ndarray]:
    """Append the GPT of the other benchmarks, up to its scores."""
    from opwright import default_main_program
    from opwright_nn import layers

    x = layers.data("x", shape=[None, gpt.TIME], dtype="int64")
    h = layers.learned_positions(layers.embedding(x, [gpt.CHARACTERS, gpt.WIDTH]), gpt.TIME)
    for _ in range(gpt.BLOCKS):
        h = layers.transformer_encoder_block(h, heads=gpt.HEADS, causal=True)
    h = layers.layer_norm(h, begin_norm_axis=2)
    scores = layers.fc(h, gpt.CHARACTERS, num_flatten_dims=2)
    pairs = zip(default_main_program().parameters(), gpt.make_parameters(), strict=True)
    return x, scores, {parameter.name: value for parameter, value in pairs}, gpt.make_batch()[0]


def append_mlp() -> tuple[Any, Any, dict[str, np.ndarray], np.ndarray]:
    """Append 784-512-256-10 with relu."""
    from opwright_nn import layers

    x = layers.data("x", shape=[None, 784])
    h = x
    for size in MLP_SIZES:
        h = layers.fc(h, size, activation="relu")
    batch = np.random.default_rng(28).standard_normal((MLP_BATCH, 784), dtype="float32")
    return x, layers.fc(h, 10), {}, batch


class Model:
    """A network with the gradients of its parameters, given the gradient of its result."""

    def __init__(self, append: Callable[[], tuple[Any, ...]]) -> None:
        import opwright as ow

        with ow.program_guard(ow.Program(28), ow.Program(28)) as (main, startup):
            self.x, self.y, initial, self.batch = append()
            block = main.global_block()
            self.forward = main.clone()
            dy = block.create_var("dy", self.y.shape, is_data=True)
            pairs = ow.append_backward(self.y, grads={self.y: dy})
        self.program, self.gradients = main, [gradient.name for _, gradient in pairs]
        self.scope = ow.Scope()
        ow.Network(startup.global_block()).run(self.scope)
        for name, value in initial.items():
            self.scope.var(name).set(value)

    def cut(self) -> Any:
        """Return the callable of the forward pass."""
        import opwright as ow

        late = {"dy": self.y}
        return ow.cut(self.program, [self.x], [self.y], late, self.gradients, scope=self.scope)

    def naive_bytes(self) -> int:
        """Return the size in bytes of all forward values that backward operators read."""
        import opwright as ow

        ops = self.program.global_block().ops
        n_forward = len(self.forward.global_block().ops)
        written = {name for op in ops[:n_forward] for name in op.output_names()}
        read = {name for op in ops[n_forward:] for name in op.input_names()}
        network = ow.Network(self.forward.global_block())
        call = network.compile(["x"], sorted(written & read), scope=self.scope)
        return sum(array.nbytes for array in call(x=self.batch))


def timed(model: Model, step: Callable[[Any], list[Any]]) -> Timed:
    """Return a step of the model; its values are sums of the gradients."""
    shape = (len(model.batch), *model.y.shape[1:])
    dy = np.random.default_rng(29).standard_normal(shape, dtype="float32")
    return Timed(lambda: step(dy), values=[float(np.abs(g).sum()) for g in step(dy)])


def one_plan(append: Callable[[], tuple[Any, ...]]) -> Timed:
    """Prepare forward and backward in one plan."""
    import opwright as ow

    model = Model(append)
    network = ow.Network(model.program.global_block())
    feed, fetch = [model.x, "dy"], [model.y, *model.gradients]
    call = network.compile(feed, fetch, scope=model.scope)
    return timed(model, lambda dy: call(x=model.batch, dy=dy)[1:])


def two_plans(append: Callable[[], tuple[Any, ...]]) -> Timed:
    """Prepare a forward call followed by its backward call."""
    model = Model(append)
    forward = model.cut()

    def step(dy: Any) -> list[Any]:
        _, backward = forward(x=model.batch)
        return backward(dy)  # type: ignore[no-any-return]

    return timed(model, step)


def saved(append: Callable[[], tuple[Any, ...]], is_naive: bool) -> Timed:
    """Return the number of bytes kept for backward besides feeds, with or without `ow.cut`."""
    model = Model(append)

    def measure() -> list[float]:
        if is_naive:
            return [float(model.naive_bytes())]
        _, backward = model.cut()(x=model.batch)
        held = [value for value in backward.args if value is not model.batch]
        return [float(sum(array.nbytes for array in held))]

    return Timed(measure=measure)


def workloads(name: str, title: str, append: Callable[[], tuple[Any, ...]]) -> list[Workload]:
    """Return the rows of a network."""
    return [
        Workload(
            f"two-plans-{name}",
            f"gradients of {title} by a forward and a later backward",
            "ms",
            {
                "opwright one plan": partial(one_plan, append),
                "opwright two plans": partial(two_plans, append),
            },
            {"opwright two plans": [Goal(ratio=1.06, of="opwright one plan")]},
        ),
        Workload(
            f"two-plans-{name}-saved",
            f"what the backward of {title} holds",
            "MiB",
            {
                "opwright naive": partial(saved, append, True),
                "opwright cut": partial(saved, append, False),
            },
            {"opwright cut": [Goal(ratio=0.7 if name != "mlp" else 1, of="opwright naive")]},
        ),
    ]


WORKLOADS = [
    *workloads("resnet18", "ResNet-18, batch 8, 224×224", append_resnet18),
    *workloads("gpt", "a GPT of 3 blocks, 128 wide, batch 32 of 64 characters", append_gpt),
    *workloads("mlp", "784-512-256-10, relu, batch 64", append_mlp),
]
