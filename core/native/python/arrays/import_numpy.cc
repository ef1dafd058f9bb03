// Defines NumPy's C API. Only this file defines it, so the file must not be merged with others.
#define OPWRIGHT_IMPORTS_NUMPY
#include "python/arrays/numpy_bridge.h"

namespace opwright {

bool ImportNumpy() { return _import_array() == 0; }

}  // namespace opwright
