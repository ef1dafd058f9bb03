"""Build a model from layer methods and a loss, and train it with one call per step."""

import opwright_nn as nn

model = nn.Model()
hidden = model.fc_layer(input="img", size=200, bias=True, activation="sigmoid")
hidden = model.fc_layer(input=hidden, size=200, bias=True, activation="sigmoid")
prob = model.fc_layer(input=hidden, size=10, bias=True, activation="softmax")
loss = model.mean(input=model.cross_entropy(input=prob, label="label"))
model.backward(loss)
model.sgd(learning_rate=0.1)
model.initialize_parameters(seed=1)  # or model.load_parameter("model_dir")

train, test = nn.datasets.digits.load(seed=1)  # (images float32 [n, 64], labels int64 [n, 1])
for images, labels in nn.batches(train, size=64, epochs=20, seed=1, progress=True):
    model.fill("img", images)
    model.fill("label", labels)
    (value,) = model.run()
model.save("model_dir")
print(nn.metrics.accuracy(model.predict(prob, img=test.images), test.labels))
