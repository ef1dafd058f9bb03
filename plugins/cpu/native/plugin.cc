// The entry of the library: every kernel of it.
#include <opwright/sdk.hpp>

OPWRIGHT_PLUGIN("cpu");
