"""Train on a data set that is a custom class, as in PyTorch, read by two workers."""

import numpy as np

import opwright_nn as nn

LENGTH = 128


class Recordings:
    """Noisy tones that are generated on access; high tones are class 1."""

    def __init__(self, n, seed):
        self.n = n
        self.seed = seed

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        rng = np.random.default_rng((self.seed, index))
        label = index % 2
        wave = np.sin(np.arange(LENGTH) * (0.2 + 0.3 * label) + rng.uniform(0, 6))
        return {"sound": wave + rng.normal(size=LENGTH), "label": label}


if __name__ == "__main__":
    model = nn.Model(cast=True)
    sound = model.input("sound", [None, LENGTH])
    h = model.fc_layer(sound, size=64, activation="relu")
    scores = model.fc_layer(h, size=2)
    loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean")
    model.minimize(loss, nn.optimizer.Adam(3e-3))
    train = nn.load_batches(Recordings(4000, seed=1), 64, workers=2)
    test = nn.load_batches(Recordings(400, seed=2), 100, workers=2, shuffle=False)
    metrics = {"accuracy": nn.metrics.Accuracy(scores, "label")}
    history = nn.train(model, train, 6, validation=test, metrics=metrics, progress=False)
    print("accuracy:", round(history["accuracy"][-1], 3))
