"""Argument names in PyTorch, TensorFlow, Paddle, ONNX, NumPy and papers.

Calls do not accept these names; the error suggests the opwright argument.
"""

from __future__ import annotations

from typing import Final

_FOREIGN_NAMES: Final = {
    "activation": "act nonlinearity",
    "axis": "axes dim dimension dims reduction_indices",
    "begin_norm_axis": "normalized_shape",
    "best": "save_best_only",
    "beta1": "beta_1",
    "beta2": "beta_2",
    "bias": "use_bias",
    "causal": "is_causal",
    "class_weights": "weight",
    "clip": "clipnorm global_clipnorm max_norm",
    "correction": "ddof unbiased",
    "data_format": "data_layout layout",
    "depth": "classes n_classes num_classes",
    "descending": "reverse",
    "dilations": "dilation dilation_rate",
    "epochs": "max_epochs num_epochs",
    "epsilon": "eps variance_epsilon",
    "fetch": "fetch_list",
    "filters": "channels features num_filters out_channels",
    "groups": "feature_group_count group num_groups",
    "h0": "initial_state",
    "heads": "n_heads nhead num_heads",
    "hidden": "dim_feedforward",
    "index": "ids indices positions",
    "input": "data inputs tensor x",
    "k": "top_k topk",
    "keepdims": "keep_dim keep_dims keepdim",
    "kernel": "filter_size kernel_shape kernel_size ksize pool_size window window_size",
    "label": "labels target targets y_true",
    "lengths": "input_length key_padding_mask",
    "logits": "input",
    "mask": "key_padding_mask",
    "max_length": "max_len maxlen",
    "length": "max_len maxlen",
    "monitor": "metric",
    "metrics": "metric",
    "mu": "momentum",
    "padding_index": "pad_id padding_idx",
    "paddings": "pad pad_width padding pads",
    "param_attr": "kernel_initializer weight weight_attr",
    "parameters": "parameter_list params var_list",
    "positive_weight": "pos_weight",
    "probability": "drop_prob dropout_prob p rate",
    "learning_rate": "lr rate",
    "dropout": "drop_prob rate",
    "progress": "verbose",
    "regularizer": "kernel_regularizer weight_decay",
    "restore_best": "restore_best_weights",
    "sections": "num_or_sections num_or_size_splits split_size split_size_or_sections",
    "size": "batch_size d_model dim embed_dim embedding_dim hidden_size in_features input_dim "
    "num_units out_features output_dim output_size units",
    "axes": "axis dim dims order perm permutation",
    "repeats": "dims multiples repeat_times reps",
    "shape": "dims new_shape newshape size target_shape",
    "strides": "stride subsample",
    "transpose_a": "adjoint_a trans_a",
    "transpose_x": "trans_x",
    "validation": "val_data validation_data validation_split",
    "value": "constant_value constant_values fill_value pad_value",
    "weight": "filter filters kernel w",
    "weights": "loss_weights",
    "x": "a data input inputs self tensor",
    "y": "b other",
}
"""Maps each name in opwright to the names in other libraries, separated by blanks."""

FOREIGN_ARGUMENTS: Final[dict[str, list[str]]] = {}
"""Maps foreign names to names in opwright, of which the first that a function accepts is used."""

for _own, _names in _FOREIGN_NAMES.items():
    for _name in _names.split():
        FOREIGN_ARGUMENTS.setdefault(_name, []).append(_own)
