// Defines NumPy's C API. Only this file does, so it must not be merged with another file.
#define OPWRIGHT_IMPORTS_NUMPY
#include "python/arrays/numpy_bridge.h"

namespace opwright {

bool ImportNumpy() { return _import_array() == 0; }

}  // namespace opwright
