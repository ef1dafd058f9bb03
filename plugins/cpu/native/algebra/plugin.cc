// The entry of the library: every kernel of this room.
#include <opwright/sdk.hpp>

OPWRIGHT_PLUGIN("cpu");
