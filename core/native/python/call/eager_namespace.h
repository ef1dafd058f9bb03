// Namespace: the module type of opwright.ops, see eager_namespace.cc.
#ifndef OPWRIGHT_PYTHON_EAGER_NAMESPACE_H_
#define OPWRIGHT_PYTHON_EAGER_NAMESPACE_H_

#include "python/arrays/numpy_bridge.h"

namespace opwright {

void BindEagerNamespace(py::module_& module);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_EAGER_NAMESPACE_H_
