// Reads Python's numbers and sequences through the C API, because lowering reads many of them and
// pybind11's conversions take several times as long.
#ifndef OPWRIGHT_PYTHON_SEQUENCES_H_
#define OPWRIGHT_PYTHON_SEQUENCES_H_

#include <cstdint>
#include <limits>
#include <vector>

#include <pybind11/pybind11.h>

namespace opwright {

// All of these throw the exception that Python raised.

inline int64_t ToInt(PyObject* number) {
  const long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred() != nullptr) throw pybind11::error_already_set();
  return value;
}

inline double ToDouble(PyObject* number) {
  const double value = PyFloat_AsDouble(number);
  if (value == -1 && PyErr_Occurred() != nullptr) throw pybind11::error_already_set();
  return value;
}

template <typename Unsigned>
Unsigned ToUnsigned(PyObject* number) {
  const int64_t value = ToInt(number);
  if (value < 0 || static_cast<uint64_t>(value) > std::numeric_limits<Unsigned>::max()) {
    PyErr_Format(PyExc_ValueError, "a number must be at least 0 and fit, got %R", number);
    throw pybind11::error_already_set();
  }
  return static_cast<Unsigned>(value);
}

template <typename Function>
void ForEach(PyObject* sequence, const Function& function) {
  const auto fast = pybind11::reinterpret_steal<pybind11::object>(
      PySequence_Fast(sequence, "a sequence is needed"));
  if (!fast) throw pybind11::error_already_set();
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.ptr()); ++i) {
    function(PySequence_Fast_GET_ITEM(fast.ptr(), i));
  }
}

template <typename Element, typename Convert>
std::vector<Element> ToVector(PyObject* sequence, const Convert& convert) {
  std::vector<Element> result;
  ForEach(sequence, [&](PyObject* item) { result.push_back(convert(item)); });
  return result;
}

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_SEQUENCES_H_
