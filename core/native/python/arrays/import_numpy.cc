// Defines NumPy's C API, in this file alone: it must not be compiled together with another
// one.
#define OPWRIGHT_IMPORTS_NUMPY
#include "python/arrays/numpy_bridge.h"

namespace opwright {

void ImportNumpy() {
  if (_import_array() < 0) throw py::error_already_set();
}

}  // namespace opwright
