#define OPWRIGHT_PLUGIN_VERSION "2.5"
#include "two_files.hpp"

OPWRIGHT_DEFINE_OP(negate);
OPWRIGHT_PLUGIN("test", negate);
