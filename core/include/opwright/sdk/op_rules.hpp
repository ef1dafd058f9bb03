// The rules of operator descriptions. The core checks them again; here, a mistake is reported as
// soon as the author's tests load the library.
#ifndef OPWRIGHT_SDK_OP_RULES_HPP_
#define OPWRIGHT_SDK_OP_RULES_HPP_

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "opwright/sdk/attributes.hpp"
#include "opwright/sdk/dtypes.hpp"
#include "opwright/sdk/op_description.hpp"
#include "opwright/sdk/status.hpp"

namespace opwright {
namespace detail {

// The shortest decimal that reads as the same float: "0.1" for 0.1f.
template <typename Float>
std::string ShortestDecimal(Float value) {
  char text[64] = "";
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, static_cast<double>(value));
    if (static_cast<Float>(std::strtod(text, nullptr)) == value) break;
  }
  return text;
}

// A float is written as the double that its author typed: 0.1f as 0.1, not 0.10000000149011612.
inline double WidenFloat(float value) {
  if (!std::isfinite(value)) return static_cast<double>(value);
  return std::strtod(ShortestDecimal(value).c_str(), nullptr);
}

struct ValuePrinter {
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return ShortestDecimal(value); }
  std::string operator()(const std::string& value) const { return "'" + value + "'"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  template <typename T>
  std::string operator()(const std::vector<T>& values) const {
    std::string text;
    for (const T& value : values) text += (text.empty() ? "" : ", ") + (*this)(value);
    return "[" + text + "]";
  }
};

inline std::string Print(const AttrValue& value) { return std::visit(ValuePrinter{}, value); }

inline std::string Listed(const std::vector<std::string>& names) {
  if (names.empty()) return "; there are none";
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return "; known: " + text;
}

inline bool IsBlank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

inline bool IsLowerSnake(const std::string& name) {
  if (name.empty() || name[0] < 'a' || name[0] > 'z') return false;
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

// Slots and attributes together are the signature of a Python function.
inline bool IsPythonKeyword(const std::string& name) {
  static constexpr const char* kKeywords[] = {
      "and",    "as",   "assert", "async",  "await",  "break",   "class",    "continue",
      "def",    "del",  "elif",   "else",   "except", "finally", "for",      "from",
      "global", "if",   "import", "in",     "is",     "lambda",  "nonlocal", "not",
      "or",     "pass", "raise",  "return", "try",    "while",   "with",     "yield"};
  for (const char* keyword : kKeywords) {
    if (name == keyword) return true;
  }
  return false;
}

// Whether one value of an attribute, or one element of a list, is within its bounds.
inline bool InRange(const AttrDescription& attr, const AttrValue& value) {
  // nan is outside every range, since every comparison with it is false.
  if (const double* number = std::get_if<double>(&value); number != nullptr) {
    const double low = attr.min ? std::get<double>(*attr.min) : 0;
    const double high = attr.max ? std::get<double>(*attr.max) : 0;
    return (!attr.min || (attr.min_exclusive ? *number > low : *number >= low)) &&
           (!attr.max || (attr.max_exclusive ? *number < high : *number <= high));
  }
  if (const int64_t* number = std::get_if<int64_t>(&value); number != nullptr) {
    const int64_t low = attr.min ? std::get<int64_t>(*attr.min) : 0;
    const int64_t high = attr.max ? std::get<int64_t>(*attr.max) : 0;
    return (!attr.min || (attr.min_exclusive ? *number > low : *number >= low)) &&
           (!attr.max || (attr.max_exclusive ? *number < high : *number <= high));
  }
  return true;
}

inline bool Admits(const AttrDescription& attr, const AttrValue& value) {
  if (attr.allowed.empty()) return InRange(attr, value);
  for (const AttrValue& allowed : attr.allowed) {
    if (allowed == value) return true;
  }
  return false;
}

// The elements of a list, or the value itself if it is not a list.
inline std::vector<AttrValue> ElementsOf(const AttrValue& value) {
  return std::visit(
      [](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        std::vector<AttrValue> elements;
        if constexpr (std::is_arithmetic_v<Held> || std::is_same_v<Held, std::string>) {
          elements.emplace_back(held);
        } else {
          for (const typename Held::value_type& element : held) elements.emplace_back(element);
        }
        return elements;
      },
      value);
}

inline std::string DescribeRange(const AttrDescription& attr) {
  if (!attr.allowed.empty()) {
    std::string text;
    for (const AttrValue& value : attr.allowed) text += (text.empty() ? "" : ", ") + Print(value);
    return "one of " + text;
  }
  const bool opened = !attr.min || attr.min_exclusive;
  const bool closed = attr.max && !attr.max_exclusive;
  return Concat("in ", opened ? '(' : '[', attr.min ? Print(*attr.min) : "-inf", ", ",
                attr.max ? Print(*attr.max) : "inf", closed ? ']' : ')');
}

inline bool IsDtypeAttr(const AttrDescription& attr) {
  if (attr.type != OW_ATTR_STRING || attr.allowed.empty()) return false;
  for (const AttrValue& value : attr.allowed) {
    if (!IsDtypeName(std::get<std::string>(value))) return false;
  }
  return true;
}

template <typename Items>
auto FindNamed(Items& items, const std::string& name) -> decltype(&items.front()) {
  for (auto& item : items) {
    if (item.name == name) return &item;
  }
  return nullptr;
}

template <typename Items>
std::vector<std::string> NamesOf(const Items& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(item.name);
  return names;
}

// Checks one operator; every mistake is an Exception that begins with its type.
class OpRules {
 public:
  explicit OpRules(const OpDescription& op) : op_(op) {}

  void Check() const {
    CheckType();
    if (IsBlank(op_.comment)) Fail("AddComment must say what the operator computes, got none");
    if (op_.version < 1) Fail("version must be at least 1, got ", op_.version);
    CheckNames();
    for (const SlotDescription& slot : op_.inputs) CheckSameAs(slot);
    for (const SlotDescription& slot : op_.outputs) CheckSameAs(slot);
    for (const SlotDescription& slot : op_.outputs) CheckAliases(slot);
    for (const AttrDescription& attr : op_.attrs) CheckAttr(attr);
    CheckDispatch();
    CheckGradient();
  }

 private:
  template <typename... Parts>
  [[noreturn]] void Fail(const Parts&... parts) const {
    throw Exception(op_.type, ": ", parts...);
  }

  void CheckType() const {
    const size_t dot = op_.type.find('.');
    const std::string prefix = dot == std::string::npos ? "" : op_.type.substr(0, dot);
    const std::string name = dot == std::string::npos ? op_.type : op_.type.substr(dot + 1);
    if (!IsLowerSnake(name) || (dot != std::string::npos && !IsLowerSnake(prefix))) {
      Fail("an operator type must be lower_snake, optionally with a prefix and a dot, got '",
           op_.type, "'; write it like 'acme.rms_norm'");
    }
    if (IsPythonKeyword(name) || IsPythonKeyword(prefix)) {
      Fail("an operator type must not be a Python keyword, got '", op_.type, "'");
    }
  }

  void CheckNames() const {
    std::set<std::string> seen;
    for (const SlotDescription& slot : op_.inputs) CheckName("an input", slot, &seen);
    for (const SlotDescription& slot : op_.outputs) CheckName("an output", slot, &seen);
    for (const AttrDescription& attr : op_.attrs) CheckName("an attribute", attr, &seen);
  }

  template <typename Item>
  void CheckName(const char* kind, const Item& item, std::set<std::string>* seen) const {
    if (!IsLowerSnake(item.name)) {
      Fail("the name of ", kind, " must be lower_snake, got '", item.name, "'");
    }
    if (IsPythonKeyword(item.name)) {
      Fail("the name of ", kind, " must not be a Python keyword, got '", item.name, "'");
    }
    if (!seen->insert(item.name).second) {
      Fail("slots and attributes must have different names, got '", item.name, "' twice");
    }
    if (IsBlank(item.comment)) Fail(kind, " must have a comment, got none for '", item.name, "'");
  }

  void CheckSameAs(const SlotDescription& slot) const {
    if (slot.same_as.empty()) return;
    const bool itself = slot.same_as == slot.name;
    if (itself && slot.duplicable && slot.is_input) return;
    const AttrDescription* attr = FindNamed(op_.attrs, slot.same_as);
    const bool known = FindNamed(op_.inputs, slot.same_as) || (attr && IsDtypeAttr(*attr));
    if (itself || !known) {
      Fail("SameDtypeAs of '", slot.name, "' must name an input or a dtype attribute, got '",
           slot.same_as, "'", Listed(NamesOf(op_.inputs)));
    }
  }

  void CheckAliases(const SlotDescription& slot) const {
    if (slot.aliases.empty()) return;
    const SlotDescription* input = FindNamed(op_.inputs, slot.aliases);
    if (input == nullptr) {
      Fail("Aliases of '", slot.name, "' must name an input, got '", slot.aliases, "'",
           Listed(NamesOf(op_.inputs)));
    }
    if (input->duplicable != slot.duplicable || input->shape_only) {
      Fail("output '", slot.name, "' and the input that it aliases must both be duplicable or ",
           "neither, and the input must not be shape-only, got '", slot.aliases, "'");
    }
    for (const SlotDescription& other : op_.outputs) {
      if (&other != &slot && other.aliases == slot.aliases) {
        Fail("an input must be aliased by one output, got '", slot.name, "' and '", other.name,
             "' for '", slot.aliases, "'");
      }
    }
  }

  void CheckAttr(const AttrDescription& attr) const {
    CheckBounds(attr);
    for (size_t i = 0; i < attr.allowed.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (attr.allowed[i] == attr.allowed[j]) {
          Fail("values allowed for '", attr.name, "' must differ, got ", Print(attr.allowed[i]),
               " twice");
        }
      }
    }
    if (!attr.default_value) {
      if (attr.required || attr.field_is_optional) return;
      Fail("'", attr.name, "' may be absent, but its field always has a value; give it a Default, ",
           "make it Required, or the field a std::optional");
    }
    if (attr.required) {
      Fail("'", attr.name, "' must be required or have a default, got both; remove one of them");
    }
    for (const AttrValue& element : ElementsOf(*attr.default_value)) {
      if (!Admits(attr, element)) {
        Fail("the default of '", attr.name, "' must be an allowed value: it must be ",
             DescribeRange(attr), ", got ", Print(*attr.default_value));
      }
    }
  }

  void CheckBounds(const AttrDescription& attr) const {
    if (!attr.min && !attr.max) return;
    if (!attr.allowed.empty()) {
      Fail("'", attr.name, "' must have a range or allowed values, got both");
    }
    for (const auto* bound : {&attr.min, &attr.max}) {
      if (*bound && std::holds_alternative<double>(**bound) &&
          std::isnan(std::get<double>(**bound))) {
        Fail("each bound of '", attr.name, "' must be a number, got nan");
      }
    }
    const bool exclusive = attr.min_exclusive || attr.max_exclusive;
    if (attr.min && attr.max && (*attr.min > *attr.max || (exclusive && *attr.min == *attr.max))) {
      Fail("the range of '", attr.name, "' must not be empty, got values ", DescribeRange(attr));
    }
  }

  std::string FindDispatch() const {
    if (!op_.dispatch.empty()) return op_.dispatch;
    for (const SlotDescription& slot : op_.inputs) {
      if (!slot.optional) return slot.name;
    }
    for (const AttrDescription& attr : op_.attrs) {
      if (IsDtypeAttr(attr)) return attr.name;
    }
    return "";
  }

  void CheckDispatch() const {
    const std::string name = FindDispatch();
    if (name.empty()) {
      Fail("an operator must have a required input or a dtype attribute, whose dtype selects the ",
           "kernel, got neither; use AddAttr(&Attrs::dtype, \"dtype\", …).AsDtype()");
    }
    const SlotDescription* slot = FindNamed(op_.inputs, name);
    if (slot != nullptr && !slot->optional) return;
    const AttrDescription* attr = FindNamed(op_.attrs, name);
    if (attr != nullptr && IsDtypeAttr(*attr) && (attr->required || attr->default_value)) return;
    Fail("DispatchOn must name a required input, or a dtype attribute that is never absent, got '",
         name, "'", Listed(NamesOf(op_.inputs)));
  }

  void CheckGradient() const {
    if (op_.gradient_type.empty()) return;
    if (!op_.no_gradient_reason.empty()) {
      Fail("an operator must have a gradient or a reason for not having one, got both");
    }
    if (op_.gradient_type != op_.type + "_grad") {
      Fail("its gradient operator must be '", op_.type, "_grad', got '", op_.gradient_type, "'");
    }
    std::vector<std::string> known = NamesOf(op_.inputs);
    for (const SlotDescription& slot : op_.outputs) known.push_back(slot.name);
    for (const std::string& need : op_.gradient_needs) {
      if (!FindNamed(op_.inputs, need) && !FindNamed(op_.outputs, need)) {
        Fail("Gradient's needs must name slots, got '", need, "'", Listed(known));
      }
    }
    for (const SlotDescription& slot : op_.inputs) {
      if (CanBeFloat(slot)) return;
    }
    Fail("Gradient requires an input of floats, got none; use NoGradient(reason)");
  }

  bool CanBeFloat(SlotDescription slot) const {
    std::set<std::string> seen;
    while (slot.dtypes.empty() && !slot.same_as.empty() && seen.insert(slot.name).second) {
      const AttrDescription* attr = FindNamed(op_.attrs, slot.same_as);
      if (attr != nullptr) return AnyFloat(attr->allowed);
      slot = *FindNamed(op_.inputs, slot.same_as);
    }
    return slot.dtypes.empty() || AnyFloat({slot.dtypes.begin(), slot.dtypes.end()});
  }

  static bool AnyFloat(const std::vector<AttrValue>& dtypes) {
    for (const AttrValue& dtype : dtypes) {
      if (IsFloatName(std::get<std::string>(dtype))) return true;
    }
    return false;
  }

  const OpDescription& op_;
};

}  // namespace detail
}  // namespace opwright

#endif  // OPWRIGHT_SDK_OP_RULES_HPP_
