"""Classify handwritten digits with a multilayer perceptron.

Data: the UCI handwritten digits, 1,437 images of 8×8 for training, 360 held out.
Network: two hidden layers of width 128 with dropout, and a softmax over ten classes.
Score: accuracy on the held-out images, at least 0.96.
Time: 5 seconds on two cores.
Reference: D. Rumelhart, G. Hinton, R. Williams, Learning representations by back-propagating
errors, Nature 323, 1986.
"""

import example

import opwright_nn as nn

arguments = example.read_arguments(__doc__)
train, test = nn.datasets.digits.load(seed=1)

model = nn.Model()
hidden = model.dropout(model.fc_layer("image", size=128, activation="relu"), 0.3)
hidden = model.dropout(model.fc_layer(hidden, size=128, activation="relu"), 0.3)
scores = model.fc_layer(hidden, size=10)
loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean")
model.minimize(loss, nn.optimizer.Adam(1e-3))
model.initialize_parameters(seed=1)

history = nn.train(
    model,
    train,
    epochs=5 if arguments.short else 40,
    batch_size=32,
    validation=test,
    metrics={"accuracy": nn.metrics.Accuracy(scores, "label")},
)
example.finish(arguments, history, "accuracy", at_least=0.9 if arguments.short else 0.96)
