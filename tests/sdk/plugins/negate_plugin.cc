#define OPWRIGHT_PLUGIN_VERSION "2.5"
#include <opwright/sdk.hpp>

OPWRIGHT_PLUGIN("test", negate);
