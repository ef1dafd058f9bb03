// A plugin that lists nothing, although other files register objects.
#include <opwright/sdk.hpp>

OPWRIGHT_PLUGIN("test", );
