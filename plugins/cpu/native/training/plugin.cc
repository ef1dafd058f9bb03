// The entry of the library: every operator that it has kernels for.
#include "training/ops.h"

OPWRIGHT_PLUGIN("cpu", fc, fc_input_grad, fc_sgd, softmax_cross_entropy);
