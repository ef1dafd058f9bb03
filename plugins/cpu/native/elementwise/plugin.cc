// The entry of the library: every operator that it has kernels for.
#include "elementwise/ops.h"

OPWRIGHT_PLUGIN("cpu", abs, negative, sign, square, clip, exp, log, sqrt, reciprocal, erf, scale,
                relu, sigmoid, tanh, softplus, silu, gelu, elu, leaky_relu, add, subtract, multiply,
                divide, power, maximum, minimum, equal, not_equal, less, less_equal, greater,
                greater_equal, logical_and, logical_or, logical_xor, logical_not, where, add_n,
                cast, cast_like, assign, fill, fill_like, elementwise_chain);
