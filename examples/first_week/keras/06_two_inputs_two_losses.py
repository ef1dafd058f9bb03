"""Concatenate two inputs, and train two outputs with weighted losses."""

import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(0)
inputs = {
    "numbers": rng.normal(size=(2000, 8)).astype("float32"),
    "kind": rng.integers(0, 5, (2000, 1)),
}
price = inputs["numbers"][:, :1] * (1 + inputs["kind"])
targets = {"price": price, "sold": (price > 0).astype("int64")}

numbers = layers.Input([8], name="numbers")
kind = layers.Input([1], name="kind", dtype="int64")
h = layers.Concatenate()([numbers, layers.Flatten()(layers.Embedding(5, 4)(kind))])
h = layers.Dense(64, activation="relu")(h)
price = layers.Dense(1, name="price")(h)
sold = layers.Dense(2, name="sold")(h)
model = keras.Model({"numbers": numbers, "kind": kind}, {"price": price, "sold": sold})
model.compile(
    keras.optimizers.Adam(0.01),
    loss={"price": "mse", "sold": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
    loss_weights={"price": 1.0, "sold": 0.5},
    metrics={"sold": "accuracy"},
)

history = model.fit(inputs, targets, epochs=10, batch_size=64)
print(history.history)
results = model.predict({name: values[:3] for name, values in inputs.items()})
print(results["price"], results["sold"])
