"""Classify shapes in color images of 32×32 with a residual network.

Data: 4,000 generated images of eight shapes, 1,000 held out; or --cifar FOLDER, with the binary
files of CIFAR-10.
Network: ResNet-20 of the paper: a convolution, nine residual blocks of two convolutions each.
Score: accuracy on held-out images, at least 0.95.
Time: 2 minutes on two cores.
Reference: He, Zhang, Ren, Sun, Deep Residual Learning for Image Recognition, 2015.
"""

from pathlib import Path

import example

import opwright as ow
import opwright_nn as nn

arguments = example.read_arguments(__doc__, cifar="the folder with data_batch_1.bin and so on")
n_blocks, epochs, n_images, size = (3, 8, 4000, 32)
if arguments.short:
    n_blocks, epochs, n_images, size = (1, 6, 1500, 16)

if arguments.cifar:
    folder = Path(arguments.cifar)
    train = nn.datasets.cifar.read(sorted(folder.glob("data_batch_*.bin")))
    test = nn.datasets.cifar.read(folder / "test_batch.bin")
else:
    train = nn.datasets.generators.shapes(n_images, size, seed=1)
    test = nn.datasets.generators.shapes(n_images // 4, size, seed=2)

model = nn.Model()


def convolve(
    x: ow.Variable, filters: int, stride: int = 1, activation: str | None = None
) -> ow.Variable:
    """Return a 3×3 convolution with batch normalization."""
    h = model.conv2d(x, filters, kernel=3, strides=stride, paddings=1, bias=False)
    return model.batch_norm(h, activation=activation)


def residual(x: ow.Variable, filters: int, stride: int) -> ow.Variable:
    """Return x plus two convolutions of it; if sizes change, a 1×1 convolution is applied to x."""
    h = convolve(convolve(x, filters, stride, activation="relu"), filters)
    if stride != 1:
        x = model.batch_norm(model.conv2d(x, filters, kernel=1, strides=stride, bias=False))
    return model.relu(h + x)


h = convolve(model.input("image", [None, 3, None, None]), 16, activation="relu")
for filters in (16, 32, 64):
    for block in range(n_blocks):
        h = residual(h, filters, stride=2 if filters > 16 and block == 0 else 1)
scores = model.fc_layer(model.flatten(model.adaptive_avg_pool2d(h, 1)), size=10)
loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean")
rate = nn.schedule.one_cycle(5e-3, steps=epochs * len(train.labels) // 64)
model.minimize(loss + 5e-5 * model.l2("*_w_param"), nn.optimizer.Adam(rate))
model.initialize_parameters(seed=1)

history = nn.train(
    model,
    train,
    epochs,
    batch_size=64,
    validation=test,
    metrics={"accuracy": nn.metrics.Accuracy(scores, "label")},
)
example.finish(arguments, history, "accuracy", at_least=0.2 if arguments.short else 0.95)
