"""Train with a custom loss: the pinball loss, for quantiles."""

import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(0)
x = rng.uniform(-2, 2, (2000, 1)).astype("float32")
y = (np.sin(x) + rng.normal(size=x.shape) * 0.3).astype("float32")
quantiles = np.array([0.1, 0.5, 0.9], "float32")


def pinball(y, out):
    error = y - out
    return keras.ops.mean(keras.ops.maximum(quantiles * error, (quantiles - 1) * error))


model = keras.Sequential()
model.add(layers.Input([1]))
model.add(layers.Dense(64, activation="tanh"))
model.add(layers.Dense(3))
model.compile(keras.optimizers.Adam(0.01), loss=pinball)

model.fit(x, y, epochs=20, batch_size=64)
print("below each quantile:", (y < model.predict(x)).mean(axis=0))
