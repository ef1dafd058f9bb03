"""Concatenate two inputs, and train two outputs with weighted losses."""

import numpy as np

import opwright_nn as nn

rng = np.random.default_rng(0)
data = {
    "numbers": rng.normal(size=(2000, 8)).astype("float32"),
    "kind": rng.integers(0, 5, (2000, 1)),
}
data["price"] = data["numbers"][:, :1] * (1 + data["kind"]).astype("float32")
data["sold"] = (data["price"] > 0).astype("int64")

model = nn.Model()
kind = model.flatten(model.embedding("kind", size=[5, 4]))
h = model.concat([model.input("numbers", [None, 8]), kind])
h = model.fc_layer(h, size=64, activation="relu")
price = model.fc_layer(h, size=1)
sold = model.fc_layer(h, size=2)
losses = [
    model.mse(price, "price", reduction="mean"),
    model.softmax_with_cross_entropy(sold, "sold", reduction="mean"),
]
model.minimize(losses[0] + 0.5 * losses[1], nn.optimizer.Adam(0.01))

history = nn.train(
    model,
    data,
    epochs=10,
    batch_size=64,
    metrics={"price": losses[0], "accuracy": nn.metrics.Accuracy(sold, "sold")},
)
print(history)
prices, solds = model.predict([price, sold], numbers=data["numbers"][:3], kind=data["kind"][:3])
print(prices, solds)
