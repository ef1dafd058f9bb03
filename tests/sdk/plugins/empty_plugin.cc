// Lists nothing, whatever the other files register.
#include <opwright/sdk.hpp>

OPWRIGHT_PLUGIN("test", );
