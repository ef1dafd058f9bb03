// Watch: checks whether the arguments of a call are the objects of an earlier call, unchanged since
// then.
#include <cstddef>
#include <utility>
#include <vector>

#include "python/bind/errors.h"
#include "python/bind/handles.h"

namespace opwright {

namespace {

// Reads a numeric attribute of an object; an attribute that the class computes natively is read
// without Python's attribute lookup.
class Reader {
 public:
  explicit Reader(py::str attribute) : attribute_(std::move(attribute)) {}

  // Returns -1 for an object without this attribute.
  long long operator()(PyObject* object) {
    if (!Py_IS_TYPE(object, reinterpret_cast<PyTypeObject*>(type_.ptr()))) Choose(object);
    PyObject* number = getter_ == nullptr ? PyObject_GetAttr(object, attribute_.ptr())
                                          : getter_->get(object, getter_->closure);
    const long long value = number == nullptr ? -1 : PyLong_AsLongLong(number);
    Py_XDECREF(number);
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    return value;
  }

 private:
  void Choose(PyObject* object) {
    type_ = py::type::of(py::handle(object));
    const py::object found = py::getattr(type_, attribute_, py::none());
    const bool is_native = Py_IS_TYPE(found.ptr(), &PyGetSetDescr_Type);
    getter_ = is_native ? reinterpret_cast<PyGetSetDescrObject*>(found.ptr())->d_getset : nullptr;
  }

  py::str attribute_;
  py::object type_;                // keeps the getter alive
  PyGetSetDef* getter_ = nullptr;  // the type's getter, null if the attribute has none
};

class Watch {
 public:
  Watch(const py::tuple& arguments, const py::sequence& positions, py::str attribute)
      : reader_(std::move(attribute)) {
    for (const py::handle item : positions) {
      const auto position = item.cast<size_t>();
      if (position >= arguments.size()) {
        Throw(ErrorKind::kFeed, "Watch: positions must be below ", arguments.size(), ", got ",
              position);
      }
      PyObject* object = PyTuple_GET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(position));
      watched_.push_back({static_cast<Py_ssize_t>(position), object, reader_(object)});
    }
  }

  bool IsSame(const py::tuple& arguments) {
    const Py_ssize_t n = PyTuple_GET_SIZE(arguments.ptr());
    for (const Watched& watched : watched_) {
      if (watched.position >= n) return false;
      PyObject* object = PyTuple_GET_ITEM(arguments.ptr(), watched.position);
      if (object != watched.object || reader_(object) != watched.number) return false;
    }
    return true;
  }

 private:
  struct Watched {
    Py_ssize_t position;
    PyObject* object;  // only compared, so no reference is held
    long long number;
  };

  Reader reader_;
  std::vector<Watched> watched_;
};

}  // namespace

void BindWatch(py::module_& module) {
  py::class_<Watch>(module, "Watch", py::is_final(),
                    "Whether call arguments are the same, unchanged objects as in an earlier call.")
      .def(py::init<const py::tuple&, const py::sequence&, py::str>(), py::arg("arguments"),
           py::arg("positions"), py::arg("attribute"))
      .def("is_same", &Watch::IsSame, py::arg("arguments"));
}

}  // namespace opwright
