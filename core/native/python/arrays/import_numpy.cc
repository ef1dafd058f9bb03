// Defines NumPy's C API, only in this file: it must not be compiled with another one.
#define OPWRIGHT_IMPORTS_NUMPY
#include "python/arrays/numpy_bridge.h"

namespace opwright {

bool ImportNumpy() { return _import_array() == 0; }

}  // namespace opwright
