// Lists nothing, though other files register objects.
#include <opwright/sdk.hpp>

OPWRIGHT_PLUGIN("test", );
