// Handles through which Python objects own shared, immutable objects of the runtime.
#ifndef OPWRIGHT_PYTHON_HANDLES_H_
#define OPWRIGHT_PYTHON_HANDLES_H_

#include <memory>

#include "python/arrays/numpy_bridge.h"
#include "runtime/plan/plan.h"
#include "runtime/values/tensor.h"

namespace opwright {

// The holders of pybind11 do not support pointers to const.
struct PlanHandle {
  std::shared_ptr<const Plan> plan;
};

struct TensorHandle {
  std::shared_ptr<const Tensor> tensor;
};

// Returns an owner of a Python object, or null for None. Any thread may release the owner, which
// then acquires the GIL.
std::shared_ptr<void> HoldObject(const py::object& object);

// Converts a shape to a Python tuple.
py::tuple ShapeTuple(const Shape& shape);

// Returns a capsule for a tensor, versioned if `max_version` allows it. Pending work on the tensor
// is ordered before the work that the consumer enqueues on `stream`. Throws.
py::object ToDlpack(const std::shared_ptr<const Tensor>& tensor, const py::object& stream,
                    const py::object& max_version, const py::object& dl_device,
                    const py::object& copy);
py::tuple DlpackDevice(const Tensor& tensor);

// Whether an array other than an ndarray declares that it is on a device other than the host.
bool IsOnDevice(const py::handle& array, const std::shared_ptr<Device>& device);
// Returns an array on a device as a tensor that owns it, ordered after the array's pending work.
// Throws kFeed, with a message that begins with `who`, if the array is not contiguous.
std::shared_ptr<const Tensor> FromArray(const py::handle& array,
                                        const std::shared_ptr<Device>& device, const char* who);
// Returns a tensor over memory of `owner`; throws, with a message that begins with `who`, for an
// impossible shape. On a device, where kernels read vectors, an array that is not aligned to 16
// bytes is copied.
std::shared_ptr<const Tensor> Borrow(const std::shared_ptr<Device>& device, DLDataType dtype,
                                     Shape shape, void* data, std::shared_ptr<void> owner,
                                     const char* who, bool is_read_only = false);

// Whether an array without DLPack describes its memory by an attribute with the name `interface` of
// the device's arrays; see opwright.device.DeviceArrays.
bool HasInterface(const py::handle& array, const Device& device);
// Like FromArray, for an array with the attribute `interface`.
std::shared_ptr<const Tensor> FromInterface(const py::handle& array,
                                            const std::shared_ptr<Device>& device, const char* who);
// Returns an attribute of a Tensor, including the attribute that its device defines.
PyObject* GetTensorAttribute(PyObject* self, PyObject* name);

// Each of these functions adds its classes to the module.
void BindBundle(py::module_& module);
void BindDevice(py::module_& module);
void BindScope(py::module_& module);
void BindLibrary(py::module_& module);
void BindPrepared(py::module_& module);
void BindPlan(py::module_& module);
// Adds the functions that measure a plan to its class.
void BindReadMessage(py::module_& module);
void BindTiming(py::class_<PlanHandle>* plan);
void BindCompiledNetwork(py::module_& module);
void BindEagerOperator(py::module_& module);
void BindEagerFunction(py::module_& module);
void BindWatch(py::module_& module);
// Must be called last; makes a failed allocation of an instance raise an error.
void GuardInstances(const py::module_& module);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_HANDLES_H_
