// The entry of the library: every operator that it has kernels for.
#include "elementwise/ops.h"

OPWRIGHT_PLUGIN("cpu", add);
