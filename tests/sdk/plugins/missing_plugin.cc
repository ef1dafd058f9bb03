// A plugin that lists an object that no file registers.
#include <opwright/sdk.hpp>

OPWRIGHT_PLUGIN("test", negate, softmax);
