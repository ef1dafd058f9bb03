"""The layer methods of a Model: one for each layer function, with its parameters.

Type checkers and editors read them in layer_methods.pyi, which tests/nn/model/layer_stub.py writes.
"""

from __future__ import annotations

from typing import Final

from opwright_nn import layers
from opwright_nn.model.delegation import LayerMethod
from opwright_nn.model.programs import ModelPrograms

METHOD_NAMES: Final = {
    layer: {"fc": "fc_layer"}.get(layer, layer) for layer in layers.__all__ if layer != "data"
}
"""The method of each layer function; that of `layers.data` is `Model.input`."""


class LayerMethods(ModelPrograms):
    """A `Model` with a method for each layer function; see there."""


for _layer, _method in METHOD_NAMES.items():
    setattr(LayerMethods, _method, LayerMethod(LayerMethods, _method, getattr(layers, _layer)))
