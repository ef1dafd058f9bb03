#include "python/arrays/numpy_bridge.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "python/arrays/host_arrays.h"
#include "python/bind/errors.h"
#include "runtime/device/host_memory.h"
#include "runtime/status.h"

namespace opwright {

namespace {

// Results of at least this size are aligned to cache lines, which NumPy's own buffers rarely are.
constexpr uint64_t kAlignedResultBytes = 16 * 1024;

alignas(64) char nowhere[64];

int TypeNumber(DLDataType dtype) {
  const int size = dtype.bits / 8;
  switch (dtype.code) {
    case kDLBool:
      return NPY_BOOL;
    case kDLInt:
      return size == 1 ? NPY_INT8 : size == 2 ? NPY_INT16 : size == 4 ? NPY_INT32 : NPY_INT64;
    case kDLUInt:
      return size == 1 ? NPY_UINT8 : size == 2 ? NPY_UINT16 : size == 4 ? NPY_UINT32 : NPY_UINT64;
    default:
      return size == 2 ? NPY_FLOAT16 : size == 4 ? NPY_FLOAT32 : NPY_FLOAT64;
  }
}

// Dtypes that ml_dtypes adds to NumPy under the same names.
struct AddedDtype {
  DLDataType dtype;
  PyArray_Descr* descr;
};
AddedDtype added_dtypes[] = {{{kDLBfloat, 16, 1}, nullptr},
                             {{kDLFloat8_e4m3fn, 8, 1}, nullptr},
                             {{kDLFloat8_e5m2, 8, 1}, nullptr},
                             {{kDLInt, 4, 1}, nullptr},
                             {{kDLUInt, 4, 1}, nullptr}};

PyArray_Descr* AddDescr(DLDataType dtype) {
  const char* name = DtypeName(dtype);
  try {
    // The import takes 7 ms, so ml_dtypes is imported only if one of these dtypes is used.
    const py::object type = py::module_::import("ml_dtypes").attr(name);
    PyArray_Descr* found = nullptr;
    if (PyArray_DescrConverter(type.ptr(), &found) == NPY_FAIL) throw py::error_already_set();
    return found;
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    Throw(ErrorKind::kDtype, "dtype: ", name,
          " needs ml_dtypes, which is not installed; pip install ml_dtypes");
  }
}

// ml_dtypes uses our dtype names only for its scalar types.
bool FindAddedDtype(const PyArray_Descr* descr, DLDataType* dtype) {
  const char* dot = std::strrchr(descr->typeobj->tp_name, '.');
  const char* name = dot == nullptr ? descr->typeobj->tp_name : dot + 1;
  for (const AddedDtype& added : added_dtypes) {
    *dtype = added.dtype;
    if (std::strcmp(name, DtypeName(added.dtype)) == 0) return true;
  }
  return false;
}

void FreeStorageOwner(PyObject* capsule) {
  delete static_cast<std::shared_ptr<Storage>*>(PyCapsule_GetPointer(capsule, nullptr));
}

void FreeAligned(PyObject* capsule) { FreeHost(PyCapsule_GetPointer(capsule, nullptr)); }

// Creates an array with its own aligned block; a capsule frees the block.
PyObject* NewAlignedArray(PyArray_Descr* descr, int32_t ndim, const npy_intp* shape,
                          uint64_t bytes) noexcept {
  void* block = AllocateHost(bytes);
  if (block == nullptr) {
    Py_DECREF(descr);
    char text[128];
    std::snprintf(text, sizeof(text),
                  "a result: device cpu could not allocate memory, got a request for %llu bytes; "
                  "make it smaller or free arrays",
                  static_cast<unsigned long long>(bytes));
    RaiseKind(ErrorKind::kOutOfMemory, text);
    return nullptr;
  }
  PyObject* capsule = PyCapsule_New(block, nullptr, FreeAligned);
  if (capsule == nullptr) {
    FreeHost(block);
    Py_DECREF(descr);
    return nullptr;
  }
  PyObject* array = PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, nullptr, block,
                                         NPY_ARRAY_CARRAY, nullptr);
  if (array == nullptr || PyArray_SetBaseObject(AsArray(array), capsule) < 0) {
    if (array == nullptr) Py_DECREF(capsule);  // otherwise SetBaseObject took it
    Py_XDECREF(array);
    return nullptr;
  }
  return array;
}

}  // namespace

PyArray_Descr* DescrOf(DLDataType dtype) {
  for (AddedDtype& added : added_dtypes) {
    if (!SameDtype(added.dtype, dtype)) continue;
    if (added.descr == nullptr) added.descr = AddDescr(dtype);
    return added.descr;
  }
  static std::array<PyArray_Descr*, NPY_NTYPES_LEGACY> known{};
  const int number = TypeNumber(dtype);
  PyArray_Descr*& descr = known[static_cast<size_t>(number)];
  if (descr == nullptr) descr = PyArray_DescrFromType(number);  // NumPy never frees these
  return descr;
}

bool FindDtype(PyArray_Descr* descr, DLDataType* dtype) {
  if (descr->type_num >= NPY_USERDEF) return FindAddedDtype(descr, dtype);
  const auto size = static_cast<uint8_t>(PyDataType_ELSIZE(descr) * 8);
  switch (descr->kind) {
    case 'b':
      *dtype = {kDLBool, 8, 1};
      return true;
    case 'i':
      *dtype = {kDLInt, size, 1};
      return true;
    case 'u':
      *dtype = {kDLUInt, size, 1};
      return true;
    case 'f':
      *dtype = {kDLFloat, size, 1};
      return size <= 64;  // excludes long double
    default:
      return false;
  }
}

DLDataType DtypeOf(PyArray_Descr* descr, const char* who) {
  DLDataType dtype{};
  if (FindDtype(descr, &dtype)) return dtype;
  const auto text = py::str(py::handle(reinterpret_cast<PyObject*>(descr))).cast<std::string>();
  Throw(ErrorKind::kDtype, who, ": a tensor holds numbers or bools, got dtype ", text);
}

void* Nowhere() { return nowhere; }

PyObject* NewArray(DLDataType dtype, int32_t ndim, const int64_t* shape) noexcept {
  PyArray_Descr* descr = nullptr;
  try {
    descr = DescrOf(dtype);
  } catch (const std::exception& error) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, error.what());
    return nullptr;
  }
  static_assert(sizeof(npy_intp) == sizeof(int64_t), "shapes are passed as they are");
  const auto* dims = reinterpret_cast<const npy_intp*>(shape);
  uint64_t bytes = static_cast<uint64_t>(ItemSize(dtype));
  for (int32_t i = 0; i < ndim; ++i) bytes *= static_cast<uint64_t>(shape[i]);
  Py_INCREF(descr);
  if (bytes >= kAlignedResultBytes) return NewAlignedArray(descr, ndim, dims, bytes);
  return PyArray_NewFromDescr(&PyArray_Type, descr, ndim, dims, nullptr, nullptr, 0, nullptr);
}

PyArrayObject* NewView(const DLTensor& tensor, void* data, bool read_only) noexcept {
  PyArray_Descr* descr = nullptr;
  try {
    descr = DescrOf(tensor.dtype);
  } catch (const std::exception& error) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, error.what());
    return nullptr;
  }
  npy_intp strides[NPY_MAXDIMS] = {0};
  if (tensor.ndim > NPY_MAXDIMS) {
    PyErr_Format(PyExc_ValueError, "NumPy arrays have at most %d dims, got %d", NPY_MAXDIMS,
                 tensor.ndim);
    return nullptr;
  }
  const bool nothing = data == nullptr;
  for (int32_t i = 0; i < tensor.ndim && !nothing; ++i) {
    strides[i] = tensor.strides[i] * ItemSize(tensor.dtype);
  }
  Py_INCREF(descr);
  PyObject* array = PyArray_NewFromDescr(
      &PyArray_Type, descr, tensor.ndim, reinterpret_cast<const npy_intp*>(tensor.shape), strides,
      nothing ? Nowhere() : data, read_only ? 0 : NPY_ARRAY_WRITEABLE, nullptr);
  return AsArray(array);
}

PyObject* NewStorageOwner(std::shared_ptr<Storage> storage) noexcept {
  auto* held = new (std::nothrow) std::shared_ptr<Storage>(std::move(storage));
  if (held == nullptr) return PyErr_NoMemory();
  PyObject* capsule = PyCapsule_New(held, nullptr, FreeStorageOwner);
  if (capsule == nullptr) delete held;
  return capsule;
}

py::object TensorToNumpy(const Tensor& tensor) {
  DescrOf(tensor.dtype);  // throws a clearer error
  PyObject* array = NewArray(tensor.dtype, tensor.ndim(), tensor.shape.data());
  if (array == nullptr) throw py::error_already_set();
  py::object result = py::reinterpret_steal<py::object>(array);
  const uint64_t bytes = tensor.bytes();
  tensor.device()->CopyToHost(PyArray_DATA(AsArray(array)), tensor.data(), bytes);
  return result;
}

py::object ReadyArray(const py::handle& array_like, const std::shared_ptr<Device>& device,
                      const char* who) {
  ArrayKind kind;
  PyObject* ready = ReadReady(array_like.ptr(), &kind);
  if (ready != nullptr) return py::reinterpret_steal<py::object>(ready);
  return py::module_::import("opwright.device.intake")
      .attr("read_to_copy")(array_like, device, who);
}

std::shared_ptr<const Tensor> TensorFromNumpy(const py::handle& array_like,
                                              const std::shared_ptr<Device>& device,
                                              const char* who) {
  const py::object ready = ReadyArray(array_like, device, who);
  PyArrayObject* array = AsArray(ready.ptr());
  const DLDataType dtype = DtypeOf(PyArray_DESCR(array), who);
  const npy_intp* dims = PyArray_DIMS(array);
  auto tensor = MakeTensor(device, dtype, Shape(dims, dims + PyArray_NDIM(array)), who);
  device->CopyFromHost(tensor->data(), PyArray_DATA(array), tensor->bytes());
  return tensor;
}

}  // namespace opwright
