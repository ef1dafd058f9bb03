"""Save a checkpoint after each epoch, and resume training from the last one."""

import numpy as np

import opwright_nn as nn

train, test = nn.datasets.digits.load()


def build():
    model = nn.Model()
    h = model.fc_layer("img", size=128, activation="relu")
    scores = model.fc_layer(h, size=10)
    loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean")
    model.minimize(loss, nn.optimizer.Adam(0.01))
    return model, scores


def fit(epochs):
    model, scores = build()
    saver = nn.Checkpoint("checkpoints")
    nn.train(model, train, epochs=epochs, callbacks=[saver], resume="latest")
    return model, scores


fit(epochs=2)  # or killed at any moment
model, scores = fit(epochs=4)  # trains two more
model.save("digits")

other, other_scores = build()
other.load_parameter("digits")
same = np.array_equal(
    other.predict(other_scores, img=test.images), model.predict(scores, img=test.images)
)
print("loaded the same:", same)
