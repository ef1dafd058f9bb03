// Attributes of one operator: read by name and type, once, into a typed struct.
#ifndef OPWRIGHT_SDK_ATTRIBUTES_HPP_
#define OPWRIGHT_SDK_ATTRIBUTES_HPP_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "opwright/abi.h"
#include "opwright/sdk/status.hpp"

namespace opwright {
namespace detail {

template <typename T>
struct AlwaysFalse : std::false_type {};

// Properties of an attribute, derived from the type of its struct field: the attribute type
// (OW_ATTR_), the type of the value or of a list element, and whether the attribute may be absent.
template <typename T>
struct FieldTraits {
  using Element = T;
  static constexpr bool kOptional = false;
  static constexpr int32_t Type() {
    if constexpr (std::is_same_v<T, bool>) {
      return OW_ATTR_BOOL;
    } else if constexpr (std::is_same_v<T, std::string>) {
      return OW_ATTR_STRING;
    } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      return OW_ATTR_FLOAT;
    } else if constexpr (std::is_integral_v<T>) {
      return OW_ATTR_INT;
    } else {
      static_assert(AlwaysFalse<T>::value,
                    "an attribute is an integer, float, double, bool, std::string, std::vector of "
                    "one of these, or std::optional of any of these");
      return 0;
    }
  }
};

template <typename T>
struct FieldTraits<std::vector<T>> {
  using Element = T;
  static constexpr bool kOptional = false;
  static constexpr int32_t Type() { return FieldTraits<T>::Type() + (OW_ATTR_INTS - OW_ATTR_INT); }
};

template <typename T>
struct FieldTraits<std::optional<T>> {
  using Element = typename FieldTraits<T>::Element;
  static constexpr bool kOptional = true;
  static constexpr int32_t Type() { return FieldTraits<T>::Type(); }
};

inline const char* AttrTypeName(int32_t type) {
  static constexpr const char* kNames[] = {"unknown",    "int",       "float",       "str",
                                           "bool",       "list[int]", "list[float]", "list[str]",
                                           "list[bool]", "block"};
  return type >= OW_ATTR_INT && type <= OW_ATTR_BLOCK ? kNames[type] : kNames[0];
}

}  // namespace detail

// Finds attributes by name. Defaults are filled in already; an absent attribute was not set and has
// no default. Prepare and InferShape read attributes; kernels get the resulting struct.
class AttributeReader {
 public:
  AttributeReader(const ow_attr* attrs, uint64_t n_attrs, uint64_t stride)
      : attrs_(attrs), n_attrs_(n_attrs), stride_(stride) {}

  bool Has(const std::string& name) const { return Find(name) != nullptr; }

  // Reads a scalar. Fails if it is absent, has another type, or is too large.
  template <typename T>
  OPWRIGHT_COLD Status Get(const std::string& name, T* value) const {
    const ow_attr* attr = nullptr;
    OPWRIGHT_RETURN_IF_ERROR(FindTyped(name, detail::FieldTraits<T>::Type(), &attr));
    if constexpr (std::is_same_v<T, std::string>) {
      value->assign(attr->string.data, attr->string.length);
      return Status::Ok();
    } else if constexpr (std::is_floating_point_v<T>) {
      return Narrow(name, attr->float_value, value);
    } else {
      return Narrow(name, attr->int_value, value);
    }
  }

  // Reads a list. Fails like Get.
  template <typename T>
  OPWRIGHT_COLD Status GetArray(const std::string& name, std::vector<T>* array) const {
    const ow_attr* attr = nullptr;
    OPWRIGHT_RETURN_IF_ERROR(FindTyped(name, detail::FieldTraits<std::vector<T>>::Type(), &attr));
    array->clear();
    array->reserve(attr->count);
    for (uint64_t i = 0; i < attr->count; ++i) {
      if constexpr (std::is_same_v<T, std::string>) {
        array->emplace_back(attr->strings[i].data, attr->strings[i].length);
      } else if constexpr (std::is_same_v<T, bool>) {
        array->push_back(attr->bools[i] != 0);
      } else {
        T element{};
        if constexpr (std::is_floating_point_v<T>) {
          OPWRIGHT_RETURN_IF_ERROR(Narrow(name, attr->floats[i], &element));
        } else {
          OPWRIGHT_RETURN_IF_ERROR(Narrow(name, attr->ints[i], &element));
        }
        array->push_back(element);
      }
    }
    return Status::Ok();
  }

 private:
  OPWRIGHT_COLD const ow_attr* Find(const std::string& name) const {
    for (uint64_t i = 0; i < n_attrs_; ++i) {
      const ow_attr* attr = OW_AT(ow_attr, attrs_, stride_, i);
      if (name == attr->name) return attr;
    }
    return nullptr;
  }

  OPWRIGHT_COLD Status FindTyped(const std::string& name, int32_t type,
                                 const ow_attr** attr) const {
    *attr = Find(name);
    OPWRIGHT_ENFORCE(*attr != nullptr, "attribute '", name, "' must be given, got none");
    OPWRIGHT_ENFORCE((*attr)->type == type, "attribute '", name, "' must be ",
                     detail::AttrTypeName(type), ", got ", detail::AttrTypeName((*attr)->type));
    return Status::Ok();
  }

  template <typename T>
  OPWRIGHT_COLD static Status Narrow(const std::string& name, int64_t wide, T* value) {
    *value = static_cast<T>(wide);
    const bool same_sign = std::is_signed_v<T> || wide >= 0;
    OPWRIGHT_ENFORCE(same_sign && static_cast<int64_t>(*value) == wide, "attribute '", name,
                     "' must fit the ", 8 * sizeof(T), " bits of its field, got ", wide);
    return Status::Ok();
  }

  template <typename T>
  OPWRIGHT_COLD static Status Narrow(const std::string& name, double wide, T* value) {
    constexpr double kMax = static_cast<double>(std::numeric_limits<T>::max());
    OPWRIGHT_ENFORCE(!std::isfinite(wide) || std::fabs(wide) <= kMax, "attribute '", name,
                     "' must fit the ", 8 * sizeof(T), " bits of its field, got ", wide);
    *value = static_cast<T>(wide);
    return Status::Ok();
  }

  const ow_attr* attrs_;
  uint64_t n_attrs_;
  uint64_t stride_;
};

namespace detail {

template <typename T>
Status ReadField(const AttributeReader& reader, const std::string& name, T* field) {
  return reader.Get(name, field);
}

template <typename T>
Status ReadField(const AttributeReader& reader, const std::string& name, std::vector<T>* field) {
  return reader.GetArray(name, field);
}

template <typename T>
OPWRIGHT_COLD Status ReadField(const AttributeReader& reader, const std::string& name,
                               std::optional<T>* field) {
  field->reset();
  if (!reader.Has(name)) return Status::Ok();
  return ReadField(reader, name, &field->emplace());
}

// Returns the next name of "a, b", a list that a macro turned into a string, and moves past it;
// empty at the end.
OPWRIGHT_COLD inline std::string NextName(const char** list) {
  const char* const begin = *list + std::strspn(*list, ", \t\n");
  *list = begin + std::strcspn(begin, ", \t\n");
  return std::string(begin, *list);
}

template <typename... Fields>
OPWRIGHT_COLD Status ReadFields(const AttributeReader& reader, const char* names,
                                Fields&... fields) {
  Status status = Status::Ok();
  ((status = ReadField(reader, NextName(&names), &fields), status.ok()) && ...);
  return status;
}

}  // namespace detail

// For an operator without attributes, or a kernel that does not read attributes.
struct NoAttrs {
  static Status Read(const AttributeReader& /*reader*/) { return Status::Ok(); }
};

}  // namespace opwright

// Names the fields of a struct that are attributes: a field has the attribute's name and type.
//
//   struct ClipAttrs {
//     double min;
//     double max;
//     OPWRIGHT_ATTRIBUTES(min, max);
//   };
//
// This suffices for a kernel of another package's operator, whose description has comments, ranges
// and defaults. An attribute that may be absent is read into a std::optional.
#define OPWRIGHT_ATTRIBUTES(...)                                              \
  ::opwright::Status Read(const ::opwright::AttributeReader& reader) {        \
    return ::opwright::detail::ReadFields(reader, #__VA_ARGS__, __VA_ARGS__); \
  }                                                                           \
  static_assert(true, "a macro that ends with a semicolon")

#endif  // OPWRIGHT_SDK_ATTRIBUTES_HPP_
