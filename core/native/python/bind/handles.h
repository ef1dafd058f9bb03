// How shared, immutable objects of the runtime are held by Python objects.
#ifndef OPWRIGHT_PYTHON_HANDLES_H_
#define OPWRIGHT_PYTHON_HANDLES_H_

#include <memory>

#include "python/arrays/numpy_bridge.h"
#include "runtime/plan/plan.h"
#include "runtime/values/tensor.h"

namespace opwright {

// pybind11's holders know no pointers to const.
struct PlanHandle {
  std::shared_ptr<const Plan> plan;
};

struct TensorHandle {
  std::shared_ptr<const Tensor> tensor;
};

// A Python object that C++ owns, given up with the GIL held from whatever thread; null for None.
std::shared_ptr<void> HoldObject(const py::object& object);

// A capsule for a tensor, versioned where `max_version` allows; throws.
py::object ToDlpack(const std::shared_ptr<const Tensor>& tensor, const py::object& max_version,
                    const py::object& dl_device, const py::object& copy);
py::tuple DlpackDevice(const Tensor& tensor);

// Whether an array that is no ndarray lies on a device other than the host, as it says itself.
bool IsOnDevice(const py::handle& array, const std::shared_ptr<Device>& device);
// Such an array as a tensor that keeps it, ordered behind what its library does with it; throws
// kFeed, beginning with `who`, where it is not contiguous.
std::shared_ptr<const Tensor> FromArray(const py::handle& array,
                                        const std::shared_ptr<Device>& device, const char* who);
// A tensor over memory that `owner` lends; throws, beginning with `who`, for an impossible shape.
std::shared_ptr<const Tensor> Borrow(const std::shared_ptr<Device>& device, DLDataType dtype,
                                     Shape shape, void* data, std::shared_ptr<void> owner,
                                     const char* who);

// An array without DLPack may say where it lies by the attribute that the `interface` of its
// device's arrays names; see opwright.device.DeviceArrays.
bool HasInterface(const py::handle& array, const Device& device);
// As FromArray.
std::shared_ptr<const Tensor> FromInterface(const py::handle& array,
                                            const std::shared_ptr<Device>& device, const char* who);
// Attributes of a Tensor: its own, and that of its device.
PyObject* GetTensorAttribute(PyObject* self, PyObject* name);

// Each adds its classes to the module.
void BindDevice(py::module_& module);
void BindScope(py::module_& module);
void BindLibrary(py::module_& module);
void BindPrepared(py::module_& module);
void BindPlan(py::module_& module);
// Adds what measures a plan to its class.
void BindTiming(py::class_<PlanHandle>* plan);
void BindCompiledNetwork(py::module_& module);
void BindEagerOperator(py::module_& module);
void BindEagerFunction(py::module_& module);
// After all of them: makes a lack of memory for an instance an error.
void GuardInstances(const py::module_& module);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_HANDLES_H_
