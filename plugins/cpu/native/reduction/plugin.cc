// The entry of the library: every operator that it has kernels for.
#include "reduction/ops.h"

OPWRIGHT_PLUGIN("cpu", sum, mean, max, min, argmax, argmin, sum_like, expand_like, expand, softmax,
                log_softmax, cross_entropy, softmax_with_cross_entropy,
                sigmoid_cross_entropy_with_logits, mse, layer_norm, batch_norm, cos_sim, accuracy,
                top_k);
