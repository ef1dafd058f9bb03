// Defines NumPy's C API, in this file alone: it must not be compiled with another one.
#define OPWRIGHT_IMPORTS_NUMPY
#include "python/arrays/numpy_bridge.h"

namespace opwright {

bool ImportNumpy() { return _import_array() == 0; }

}  // namespace opwright
