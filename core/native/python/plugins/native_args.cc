#include "python/plugins/native_args.h"

#include <pybind11/stl.h>

#include <cstdlib>

#include "runtime/status.h"

namespace opwright {

AttrStore::AttrStore(const NamedAttrs& attrs) {
  for (const auto& [name, type, value] : attrs) Add(name, type, value);
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

void AttrStore::Add(const std::string& name, int type, const py::object& value) {
  ow_attr attr{};
  attr.size = sizeof(attr);
  attr.name = Keep(name).data;
  attr.type = type < 0 ? 0 : type;  // below 0: the value of type -type, without a type
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
      attr.ints = Keep(&ints_, value.cast<std::vector<int64_t>>(), &attr);
      break;
    case OW_ATTR_FLOATS:
      attr.floats = Keep(&floats_, value.cast<std::vector<double>>(), &attr);
      break;
    case OW_ATTR_BOOLS: {
      std::vector<uint8_t> items;
      for (const bool item : value.cast<std::vector<bool>>()) items.push_back(item ? 1 : 0);
      attr.bools = Keep(&bools_, std::move(items), &attr);
      break;
    }
    case OW_ATTR_STRINGS: {
      std::vector<ow_string> items;
      for (const std::string& item : value.cast<std::vector<std::string>>()) {
        items.push_back(Keep(item));
      }
      attr.strings = Keep(&lists_, std::move(items), &attr);
      break;
    }
    default:
      Throw(ErrorKind::kProgram, name, ": the attribute's type must be one of abi.h, got ", type);
  }
  attrs_.push_back(attr);
}

std::vector<std::vector<Meta>> ToMetas(const SlotMetas& slots) {
  std::vector<std::vector<Meta>> metas;
  for (const auto& slot : slots) {
    auto& made = metas.emplace_back();
    for (const auto& [shape, code] : slot) made.push_back({shape, DtypeFromCode(code)});
  }
  return metas;
}

}  // namespace opwright
