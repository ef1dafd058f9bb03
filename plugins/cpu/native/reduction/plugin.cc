// The entry of the library: every operator that it has kernels for.
#include "reduction/ops.h"

OPWRIGHT_PLUGIN("cpu", sum, mean, max, min, sum_like, expand_like, expand, softmax, log_softmax);
