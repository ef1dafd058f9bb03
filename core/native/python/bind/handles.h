// How Python objects own shared, immutable objects of the runtime.
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

// A Python object that C++ owns, released with the GIL held from any thread; null for None.
std::shared_ptr<void> HoldObject(const py::object& object);

// A shape as Python has it.
py::tuple ShapeTuple(const Shape& shape);

// A capsule for a tensor, versioned if `max_version` allows it, in order for the work that its
// consumer enqueues on `stream`; throws.
py::object ToDlpack(const std::shared_ptr<const Tensor>& tensor, const py::object& stream,
                    const py::object& max_version, const py::object& dl_device,
                    const py::object& copy);
py::tuple DlpackDevice(const Tensor& tensor);

// Whether an array other than an ndarray declares that it is on a device other than the host.
bool IsOnDevice(const py::handle& array, const std::shared_ptr<Device>& device);
// Such an array as a tensor that owns it, ordered after the work of its library on it; throws
// kFeed, beginning with `who`, if it is not contiguous.
std::shared_ptr<const Tensor> FromArray(const py::handle& array,
                                        const std::shared_ptr<Device>& device, const char* who);
// A tensor over memory that `owner` lends; throws, beginning with `who`, for an impossible shape.
// On a device, where kernels read vectors, an array not aligned to 16 bytes is copied.
std::shared_ptr<const Tensor> Borrow(const std::shared_ptr<Device>& device, DLDataType dtype,
                                     Shape shape, void* data, std::shared_ptr<void> owner,
                                     const char* who, bool is_read_only = false);

// An array without DLPack may describe its memory by the attribute that the `interface` of the
// device's arrays names; see opwright.device.DeviceArrays.
bool HasInterface(const py::handle& array, const Device& device);
// Like FromArray.
std::shared_ptr<const Tensor> FromInterface(const py::handle& array,
                                            const std::shared_ptr<Device>& device, const char* who);
// Attributes of a Tensor: its own, and the one named by its device.
PyObject* GetTensorAttribute(PyObject* self, PyObject* name);

// Each adds its classes to the module.
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
// Called after all of them: makes running out of memory for an instance an error.
void GuardInstances(const py::module_& module);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_HANDLES_H_
