"""LeNet-5 classifies handwritten digits.

Data: the UCI handwritten digits, each pixel enlarged to 4×4, so images are 32×32 as in the
paper. 1,437 images for training, 360 held out.
Network: two convolutions of 5×5 with pooling, then fully connected layers of 120, 84 and 10.
Score: accuracy on held-out images, at least 0.96.
Time: 5 seconds on two cores.
Reference: LeCun, Bottou, Bengio, Haffner, Gradient-Based Learning Applied to Document Recognition,
1998.
"""

import example

import opwright_nn as nn


def enlarge(digits: nn.datasets.Dataset) -> nn.datasets.Dataset:
    """Return the images as [n, 1, 32, 32]."""
    squares = digits.images.reshape(-1, 1, 8, 8)
    return nn.datasets.Dataset(squares.repeat(4, axis=2).repeat(4, axis=3), digits.labels)


arguments = example.read_arguments(__doc__)
train, test = map(enlarge, nn.datasets.digits.load(seed=1))

model = nn.Model()
h = model.conv2d("image", filters=6, kernel=5, activation="tanh")
h = model.avg_pool2d(h, kernel=2)
h = model.conv2d(h, filters=16, kernel=5, activation="tanh")
h = model.avg_pool2d(h, kernel=2)
h = model.fc_layer(model.flatten(h), size=120, activation="tanh")
h = model.fc_layer(h, size=84, activation="tanh")
scores = model.fc_layer(h, size=10)
loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean")
model.minimize(loss, nn.optimizer.Adam(2e-3))
model.initialize_parameters(seed=1)

history = nn.train(
    model,
    train,
    epochs=2 if arguments.short else 10,
    batch_size=32,
    validation=test,
    metrics={"accuracy": nn.metrics.Accuracy(scores, "label")},
)
example.finish(arguments, history, "accuracy", at_least=0.8 if arguments.short else 0.96)
