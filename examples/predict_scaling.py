"""Predict two published measurements of data-parallel training from their published parameters.

A. Sergeev and M. Del Balso, Horovod: fast and easy distributed deep learning in TensorFlow, 2018,
report 90 % of perfect scaling for ResNet-101 and 68 % for VGG-16 on 512 GPUs: 128 machines with
four P100 each, connected by 25 Gbit/s.
"""

import opwright_simulation as simulation

BATCH = 64
FLOAT_BYTES = 4
FUSION_BYTES = 64 << 20  # Horovod's default
PEERS = simulation.Network(
    "25 Gbit/s RoCE",
    ranks_per_node=4,
    inside=simulation.Link(10e-6, 10e9),  # PCIe 3
    between=simulation.Link(20e-6, 0.9 * 25e9 / 8),
)

Layer = tuple[int, int]
"""Operations per image, and the number of parameters."""


def convolution(inputs: int, outputs: int, kernel: int, size: int) -> Layer:
    """Return the operations per image, and the number of parameters."""
    parameters = inputs * outputs * kernel * kernel
    return 2 * parameters * size * size, parameters


def vgg16() -> list[Layer]:
    layers: list[Layer] = []
    inputs, size = 3, 224
    for repeats, outputs in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(repeats):
            layers.append(convolution(inputs, outputs, 3, size))
            inputs = outputs
        size //= 2
    for wide, narrow in ((512 * 7 * 7, 4096), (4096, 4096), (4096, 1000)):
        layers.append((2 * wide * narrow, wide * narrow))
    return layers


def resnet101() -> list[Layer]:
    layers = [convolution(3, 64, 7, 112)]
    inputs, size = 64, 56
    for blocks, width in ((3, 64), (4, 128), (23, 256), (3, 512)):
        for block in range(blocks):
            layers.append(convolution(inputs, width, 1, size))
            layers.append(convolution(width, width, 3, size))
            layers.append(convolution(width, 4 * width, 1, size))
            if block == 0:
                layers.append(convolution(inputs, 4 * width, 1, size))
            inputs = 4 * width
        size //= 2
    return [*layers, (2 * inputs * 1000, inputs * 1000)]


def predict(network: list[Layer], images_per_s: float) -> float:
    """Return the efficiency of a network on 512 GPUs, given its speed on one GPU."""
    operations = sum(flops for flops, _ in network)
    step_s = BATCH / images_per_s
    layers = [(step_s * flops / operations, FLOAT_BYTES * size) for flops, size in network]
    step = simulation.step_of_layers(layers, bucket_bytes=FUSION_BYTES, examples=BATCH)
    report = simulation.simulate(step, [512], [PEERS], spread=0.02)
    return report.forecasts[0].efficiency


if __name__ == "__main__":
    # Images per second on one P100, from the TensorFlow benchmarks of 2017: 154 for VGG-16. The
    # value for ResNet-101 is interpolated by operation count between 219 for ResNet-50 and 91.8 for
    # ResNet-152.
    for name, network, images_per_s, measured in (
        ("ResNet-101", resnet101(), 129, 0.90),
        ("VGG-16", vgg16(), 154, 0.68),
    ):
        predicted = predict(network, images_per_s)
        print(f"{name}: predicted {100 * predicted:.0f} %, measured {100 * measured:.0f} %")
