#include "python/plugins/native_args.h"

#include <pybind11/stl.h>

#include <cstdlib>

#include "python/plugins/sequences.h"
#include "runtime/status.h"

namespace opwright {

namespace {

void CheckTuple(PyObject* object, Py_ssize_t size) {
  if (PyTuple_Check(object) && PyTuple_GET_SIZE(object) == size) return;
  PyErr_Format(PyExc_TypeError, "prepare: a tuple of %zd is needed, got %R", size, object);
  throw py::error_already_set();
}

}  // namespace

AttrStore::AttrStore(py::handle attrs) {
  ForEach(attrs.ptr(), [this](PyObject* attr) {
    CheckTuple(attr, 3);
    Add(py::handle(PyTuple_GET_ITEM(attr, 0)).cast<std::string>(),
        static_cast<int>(ToInt(PyTuple_GET_ITEM(attr, 1))), PyTuple_GET_ITEM(attr, 2));
  });
}

ow_string AttrStore::Keep(const std::string& text) {
  strings_.push_back(std::make_unique<std::string>(text));
  return {strings_.back()->c_str(), strings_.back()->size()};
}

template <typename T>
const T* AttrStore::Keep(std::vector<std::unique_ptr<std::vector<T>>>* store, std::vector<T> items,
                         ow_attr* attr) {
  attr->count = items.size();
  store->push_back(std::make_unique<std::vector<T>>(std::move(items)));
  return store->back()->data();
}

void AttrStore::Add(const std::string& name, int type, py::handle value) {
  ow_attr attr{};
  attr.size = sizeof(attr);
  attr.name = Keep(name).data;
  attr.type = type < 0 ? 0 : type;  // -type marks a value of this type without a declared type
  attr.count = 1;
  switch (std::abs(type)) {
    case OW_ATTR_INT:
    case OW_ATTR_BLOCK:
      attr.int_value = value.cast<int64_t>();
      break;
    case OW_ATTR_BOOL:
      attr.int_value = value.cast<bool>() ? 1 : 0;
      break;
    case OW_ATTR_FLOAT:
      attr.float_value = value.cast<double>();
      break;
    case OW_ATTR_STRING:
      attr.string = Keep(value.cast<std::string>());
      break;
    case OW_ATTR_INTS:
      attr.ints = Keep(&ints_, ToVector<int64_t>(value.ptr(), ToInt), &attr);
      break;
    case OW_ATTR_FLOATS:
      attr.floats = Keep(&floats_, ToVector<double>(value.ptr(), ToDouble), &attr);
      break;
    case OW_ATTR_BOOLS: {
      std::vector<uint8_t> items;
      for (const bool item : value.cast<std::vector<bool>>()) items.push_back(item ? 1 : 0);
      attr.bools = Keep(&bools_, std::move(items), &attr);
      break;
    }
    case OW_ATTR_STRINGS: {
      std::vector<ow_string> items;
      ForEach(value.ptr(),
              [&](PyObject* item) { items.push_back(Keep(py::handle(item).cast<std::string>())); });
      attr.strings = Keep(&lists_, std::move(items), &attr);
      break;
    }
    default:
      Throw(ErrorKind::kProgram, name, ": the attribute's type must be one of abi.h, got ", type);
  }
  attrs_.push_back(attr);
}

std::vector<std::vector<Meta>> ToMetas(py::handle slots) {
  std::vector<std::vector<Meta>> metas;
  ForEach(slots.ptr(), [&metas](PyObject* slot) {
    auto& made = metas.emplace_back();
    ForEach(slot, [&made](PyObject* meta) {
      CheckTuple(meta, 2);
      made.push_back({ToVector<int64_t>(PyTuple_GET_ITEM(meta, 0), ToInt),
                      DtypeFromCode(ToUnsigned<uint32_t>(PyTuple_GET_ITEM(meta, 1)))});
    });
  });
  return metas;
}

}  // namespace opwright
