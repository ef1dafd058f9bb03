#include <opwright/sdk.hpp>

#include "negation.hpp"

OPWRIGHT_DEFINE_OP(negate);
