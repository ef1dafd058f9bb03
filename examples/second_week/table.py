"""Train on a CSV file with text, missing values and dates; save with the encoder, and serve."""

import csv
import datetime

import numpy as np

import opwright as ow
import opwright_nn as nn


def write_orders(path, n=2000):
    """Write orders; whether an order is returned depends on age, shop, month and a comment."""
    rng = np.random.default_rng(1)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "shop", "ordered", "comment", "returned"])
        for _ in range(n):
            age, shop = int(rng.integers(18, 80)), str(rng.choice(["Oslo", "Paris", "Rome"]))
            day = datetime.date(2024, 1, 1) + datetime.timedelta(int(rng.integers(365)))
            is_small = rng.random() < 0.5
            comment = f"it is {'too small' if is_small else 'fine'} {rng.choice(['', 'thanks'])}"
            chance = -2 + 3 * is_small + (age < 30) + (shop == "Rome") + (day.month == 12)
            returned = "yes" if chance + rng.normal() * 0.3 > 0 else "no"
            cells = [age, shop, day.isoformat(), comment]
            cells = ["" if rng.random() < 0.05 else cell for cell in cells]
            writer.writerow([*cells, returned])


write_orders("orders.csv")
table = nn.datasets.csv.read_columns("orders.csv")
train_part = {name: column[:1600] for name, column in table.items()}
test_part = {name: column[1600:] for name, column in table.items()}

encoder = nn.datasets.TableEncoder(target="returned", columns={"comment": "text"})
train, test = encoder.fit_transform(train_part), encoder.transform(test_part)

model = nn.Model()
words = model.embedding("comment", size=[encoder.vocabulary_sizes["comment"], 8])
numbers = model.input("features", [None, len(encoder.feature_names)])
h = model.concat([numbers, model.flatten(words)], axis=1)
scores = model.fc_layer(model.fc_layer(h, 32, activation="relu"), len(encoder.classes))
loss = model.softmax_with_cross_entropy(scores, "returned", reduction="mean")
model.minimize(loss, nn.optimizer.Adam(1e-2))
metrics = {"accuracy": nn.metrics.Accuracy(scores, "returned")}
history = nn.train(model, train, epochs=10, validation=test, metrics=metrics, progress=False)
print("accuracy:", round(history["accuracy"][-1], 3))
ow.save("served", model.program, model.scope, [scores], notes={"encoder": encoder.state()})

# In another process, load the model, and encode rows as a request contains them:
loaded = ow.load("served")
encoder = nn.datasets.TableEncoder.from_state(loaded.notes["encoder"])
rows = [
    {"age": 25, "shop": "Rome", "ordered": "2024-12-01", "comment": "it is too small"},
    {"age": 55, "shop": "Oslo", "ordered": None, "comment": "fine, thanks"},
]
(answers,) = loaded(encoder.transform(rows))
print("returned:", [encoder.classes[index] for index in answers.argmax(axis=1)])
