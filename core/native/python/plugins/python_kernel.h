// Kernels written in Python: an `ow_kernel` whose run makes one vectorcall with prebuilt arguments.
#ifndef OPWRIGHT_PYTHON_PYTHON_KERNEL_H_
#define OPWRIGHT_PYTHON_PYTHON_KERNEL_H_

#include <memory>
#include <utility>
#include <vector>

#include "python/arrays/numpy_bridge.h"
#include "runtime/plan/prepared.h"

namespace opwright {

// The preparation of one Python kernel; all references are owned.
struct PythonKernel {
  py::object function;
  std::vector<uint32_t> positional;  // slots
  std::vector<uint32_t> keywords;    // slots, whose names are the first entries of `names`
  py::tuple names;                   // names of the keywords, then of the constants
  std::vector<py::object> constants;
  std::vector<uint32_t> duplicable;                    // slots
  std::vector<std::pair<uint32_t, py::object>> packs;  // argument, function
  bool bind = false;

  bool IsDuplicable(uint32_t slot) const;
};

std::shared_ptr<Prepared> MakePythonPrepared(std::unique_ptr<PythonKernel> kernel);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_PYTHON_KERNEL_H_
