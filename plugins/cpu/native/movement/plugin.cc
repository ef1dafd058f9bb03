// The entry of the library: every operator that it has kernels for.
#include "movement/ops.h"
#include "movement/update_ops.h"

OPWRIGHT_PLUGIN("cpu", reshape, reshape_like, squeeze, unsqueeze, flatten, transpose, concat, split,
                slice, pad, gather, embedding, one_hot, nonzero, uniform, normal, dropout, sgd,
                momentum, adam, adamw, multi_sgd, multi_momentum, multi_adam, multi_adamw);
