"""Decrease the learning rate, and stop when the validation loss no longer improves."""

import opwright_nn as nn

train, test = nn.datasets.digits.load()

model = nn.Model()
h = model.fc_layer("img", size=128, activation="relu")
scores = model.fc_layer(h, size=10)
loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean")
rate = nn.schedule.cosine(0.01, steps=1000, warmup=50)
model.minimize(loss, nn.optimizer.Adam(rate, clip=nn.clip.ClipByGlobalNorm(1.0)))

history = nn.train(
    model,
    train,
    epochs=50,
    batch_size=64,
    validation=test,
    metrics={"accuracy": nn.metrics.Accuracy(scores, "label")},
    callbacks=[nn.EarlyStopping(patience=3, restore_best=True)],
)
print("epochs:", len(history), "accuracy:", max(history["accuracy"]))
history.write_csv("history.csv")
