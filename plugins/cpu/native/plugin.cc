// The entry point of the library, which registers all of its kernels.
#include <opwright/sdk.hpp>

OPWRIGHT_PLUGIN("cpu");
