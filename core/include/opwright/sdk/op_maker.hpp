// OpMaker: describes an operator, each attribute bound to a field of a typed struct.
#ifndef OPWRIGHT_SDK_OP_MAKER_HPP_
#define OPWRIGHT_SDK_OP_MAKER_HPP_

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "opwright/sdk/attributes.hpp"
#include "opwright/sdk/op_rules.hpp"

namespace opwright {
namespace detail {

// The serialized value of an attribute or of a list element.
template <typename Element, typename Given>
AttrValue MakeElement(const Given& given) {
  if constexpr (std::is_same_v<Element, std::string>) {
    static_assert(std::is_convertible_v<Given, std::string>, "the attribute is a string");
    return std::string(given);
  } else if constexpr (std::is_same_v<Element, bool>) {
    static_assert(std::is_same_v<Given, bool>, "the attribute is a bool");
    return given;
  } else if constexpr (std::is_floating_point_v<Element>) {
    static_assert(std::is_arithmetic_v<Given> && !std::is_same_v<Given, bool>,
                  "the attribute is a floating-point number");
    if constexpr (std::is_same_v<Given, float>) {
      return WidenFloat(given);
    } else {
      return static_cast<double>(given);
    }
  } else {
    static_assert(std::is_integral_v<Given> && !std::is_same_v<Given, bool>,
                  "the attribute is an integer");
    return static_cast<int64_t>(given);
  }
}

// The serialized type of an element: double for float, int64_t for int.
template <typename Element>
using WireElement = std::conditional_t<
    std::is_same_v<Element, std::string>, std::string,
    std::conditional_t<std::is_same_v<Element, bool>, bool,
                       std::conditional_t<std::is_floating_point_v<Element>, double, int64_t>>>;

template <typename Element, typename Given>
AttrValue MakeList(const std::vector<Given>& given) {
  std::vector<WireElement<Element>> list;
  for (const Given& element : given) {
    list.push_back(std::get<WireElement<Element>>(MakeElement<Element, Given>(element)));
  }
  return list;
}

}  // namespace detail

// Properties of the slot that the previous call added.
class SlotMaker {
 public:
  SlotMaker(const std::string* op_type, detail::SlotDescription* slot)
      : op_type_(op_type), slot_(slot) {}

  // Accepts a list of one or more variables.
  SlotMaker& AsDuplicable() { return Set(&slot_->duplicable); }
  // May be absent.
  SlotMaker& AsOptional() { return Set(&slot_->optional); }
  // For an output: only the gradient needs it.
  SlotMaker& AsIntermediate() { return For("AsIntermediate", false).Set(&slot_->intermediate); }
  // For an input: kernels read the shape, never the data.
  SlotMaker& AsShapeOnly() { return For("AsShapeOnly", true).Set(&slot_->shape_only); }
  // Has the dtype of an input, or the value of a dtype attribute.
  SlotMaker& SameDtypeAs(const std::string& name) {
    return SetText("SameDtypeAs", &slot_->same_as, name);
  }
  // For an output: must be given the variable of this input, which is updated in place.
  SlotMaker& Aliases(const std::string& input) {
    return For("Aliases", false).SetText("Aliases", &slot_->aliases, input);
  }
  // May have only these dtypes, given by their canonical names.
  template <typename... Names>
  SlotMaker& Dtypes(const Names&... names) {
    static_assert(sizeof...(Names) > 0, "Dtypes must list the dtypes");
    for (const std::string& name : {std::string(names)...}) {
      if (!detail::IsDtypeName(name)) {
        Fail("the dtypes of '", slot_->name, "' must be canonical names, got '", name, "'");
      }
      slot_->dtypes.push_back(name);
    }
    return *this;
  }

 private:
  template <typename... Parts>
  [[noreturn]] void Fail(const Parts&... parts) const {
    throw Exception(*op_type_, ": ", parts...);
  }

  SlotMaker& For(const char* method, bool input) {
    if (slot_->is_input == input) return *this;
    Fail(method, " is for ", input ? "inputs" : "outputs", ", got ", input ? "output '" : "input '",
         slot_->name, "'");
  }

  SlotMaker& Set(bool* flag) {
    *flag = true;
    return *this;
  }

  SlotMaker& SetText(const char* method, std::string* text, const std::string& value) {
    if (!text->empty()) {
      Fail(method, " of '", slot_->name, "' must be given once, got '", *text, "' and '", value,
           "'");
    }
    *text = value;
    return *this;
  }

  const std::string* op_type_;
  detail::SlotDescription* slot_;
};

// Properties of an attribute. Bounds and allowed values of a list apply to each element.
template <typename Field>
class AttrMaker {
 public:
  using Element = typename detail::FieldTraits<Field>::Element;
  static constexpr int32_t kType = detail::FieldTraits<Field>::Type();

  AttrMaker(const std::string* op_type, detail::AttrDescription* attr)
      : op_type_(op_type), attr_(attr) {}

  // The value if none is given. A float default is written as its shortest decimal: 0.1f as 0.1.
  template <typename Value>
  AttrMaker& Default(const Value& value) {
    static_assert(kType < OW_ATTR_INTS, "the attribute is a list: Default({1, 2})");
    return SetOnce("default", &attr_->default_value, detail::MakeElement<Element, Value>(value));
  }
  AttrMaker& Default(const char* value) { return Default(std::string(value)); }
  AttrMaker& Default(const std::vector<Element>& list) {
    static_assert(kType >= OW_ATTR_INTS, "the attribute is not a list");
    return SetOnce("default", &attr_->default_value, detail::MakeList<Element, Element>(list));
  }

  template <typename Value>
  AttrMaker& GreaterThan(Value bound) {
    return Bound(&attr_->min, bound, &attr_->min_exclusive, true);
  }
  template <typename Value>
  AttrMaker& AtLeast(Value bound) {
    return Bound(&attr_->min, bound, &attr_->min_exclusive, false);
  }
  template <typename Value>
  AttrMaker& LessThan(Value bound) {
    return Bound(&attr_->max, bound, &attr_->max_exclusive, true);
  }
  template <typename Value>
  AttrMaker& AtMost(Value bound) {
    return Bound(&attr_->max, bound, &attr_->max_exclusive, false);
  }
  // From low to high, both included.
  template <typename Low, typename High>
  AttrMaker& Between(Low low, High high) {
    return AtLeast(low).AtMost(high);
  }

  // Only these values.
  template <typename... Values>
  AttrMaker& OneOf(const Values&... values) {
    static_assert(sizeof...(Values) > 0, "OneOf must list the values");
    if (!attr_->allowed.empty()) Fail("must be given its allowed values once");
    (attr_->allowed.push_back(detail::MakeElement<Element>(values)), ...);
    return *this;
  }

  // The canonical name of a dtype, one of `names` if these are given.
  template <typename... Names>
  AttrMaker& AsDtype(const Names&... names) {
    static_assert(kType == OW_ATTR_STRING, "AsDtype is for string attributes");
    if constexpr (sizeof...(Names) > 0) {
      for (const std::string& name : {std::string(names)...}) {
        if (!detail::IsDtypeName(name)) Fail("must be a dtype's canonical name, got '", name, "'");
      }
      return OneOf(names...);
    } else {
      for (const detail::NamedDtype& dtype : detail::kDtypes) {
        attr_->allowed.emplace_back(std::string(dtype.name));
      }
      return *this;
    }
  }

  // Must be given.
  AttrMaker& Required() {
    attr_->required = true;
    return *this;
  }

 private:
  template <typename... Parts>
  [[noreturn]] void Fail(const Parts&... parts) const {
    throw Exception(*op_type_, ": attribute '", attr_->name, "' ", parts...);
  }

  AttrMaker& SetOnce(const char* what, std::optional<detail::AttrValue>* place,
                     detail::AttrValue value) {
    if (*place) {
      Fail("must be given its ", what, " once, got ", detail::Print(**place), " and ",
           detail::Print(value));
    }
    *place = std::move(value);
    return *this;
  }

  template <typename Value>
  AttrMaker& Bound(std::optional<detail::AttrValue>* place, Value bound, bool* exclusive,
                   bool is_exclusive) {
    static_assert(std::is_arithmetic_v<Element> && !std::is_same_v<Element, bool>,
                  "a range is for numbers");
    *exclusive = is_exclusive;
    return SetOnce(place == &attr_->min ? "min" : "max", place,
                   detail::MakeElement<Element, Value>(bound));
  }

  const std::string* op_type_;
  detail::AttrDescription* attr_;
};

// Describes an operator whose attributes are the fields of `Attrs`. Mistakes are exceptions that
// name the operator; the entry function catches them, and the library is not loaded.
template <typename Attrs>
class OpMaker {
 public:
  using Binding = std::function<Status(const AttributeReader&, Attrs*)>;

  explicit OpMaker(std::string type) { op_.type = std::move(type); }

  // The computation of the operator: formula, edge cases, source.
  void AddComment(const std::string& text) {
    if (!op_.comment.empty()) throw Exception(op_.type, ": AddComment must be called once");
    op_.comment = text;
  }

  // A slot of one variable, required until AsOptional. Kernels get slots in the order of these
  // calls.
  SlotMaker AddInput(const std::string& name, const std::string& comment) {
    return AddSlot(&op_.inputs, name, comment, true);
  }
  SlotMaker AddOutput(const std::string& name, const std::string& comment) {
    return AddSlot(&op_.outputs, name, comment, false);
  }

  // An attribute that is read into a field. Without Default and Required it may be absent; its
  // field must then be a std::optional.
  template <typename Field>
  AttrMaker<Field> AddAttr(Field Attrs::* field, const std::string& name,
                           const std::string& comment) {
    detail::AttrDescription attr;
    attr.name = name;
    attr.comment = comment;
    attr.type = detail::FieldTraits<Field>::Type();
    attr.field_is_optional = detail::FieldTraits<Field>::kOptional;
    op_.attrs.push_back(std::move(attr));
    bindings_.push_back([field, name](const AttributeReader& reader, Attrs* attrs) {
      return detail::ReadField(reader, name, &(attrs->*field));
    });
    return AttrMaker<Field>(&op_.type, &op_.attrs.back());
  }

  // The dtype of this input, or this dtype attribute, selects the kernel.
  void DispatchOn(const std::string& name) { op_.dispatch = name; }
  // The shapes of outputs depend on values: kernels call RunContext::Resize.
  void DynamicOutput() { op_.dynamic_output = true; }
  // The operator version; increase it if programs that were saved before must be upgraded.
  void SetVersion(int32_t version) { op_.version = version; }
  // A helper that is not listed among the operators.
  void Hide() { op_.hidden = true; }

  // The gradient is one operator of this type, `<type>_grad`, which reads the data of these slots.
  // Its description is derived from this one; OPWRIGHT_REGISTER_GRADIENT_KERNEL adds its kernels.
  void Gradient(const std::string& type, const std::vector<std::string>& needs) {
    op_.gradient_type = type;
    op_.gradient_needs = needs;
  }
  // The operator has no gradient, for this reason.
  void NoGradient(const std::string& reason) {
    if (detail::IsBlank(reason)) throw Exception(op_.type, ": NoGradient needs a reason, got none");
    op_.no_gradient_reason = reason;
  }

  const detail::OpDescription& description() const { return op_; }
  const std::vector<Binding>& bindings() const { return bindings_; }

 private:
  SlotMaker AddSlot(std::deque<detail::SlotDescription>* slots, const std::string& name,
                    const std::string& comment, bool is_input) {
    detail::SlotDescription slot;
    slot.name = name;
    slot.comment = comment;
    slot.is_input = is_input;
    slots->push_back(std::move(slot));
    return SlotMaker(&op_.type, &slots->back());
  }

  detail::OpDescription op_;
  std::vector<Binding> bindings_;
};

// The base class of operators. These have `static void Make(OpMaker<Attrs>&)` and
// `static Status InferShape(InferShapeContext&)`, or InferShape with `const Attrs&` as well.
template <typename Attrs = NoAttrs>
struct Op {
  using Attributes = Attrs;
};

namespace detail {

template <typename Attrs, typename = void>
struct ReadsItself : std::false_type {};
template <typename Attrs>
struct ReadsItself<Attrs, std::void_t<decltype(&Attrs::Read)>> : std::true_type {};

// Reads the attributes of `OpT`: by their own Read, or as Make binds them, which is called once
// per process. Hidden: see OPWRIGHT_LOCAL.
template <typename OpT>
OPWRIGHT_LOCAL Status ReadAttributes(const AttributeReader& reader,
                                     typename OpT::Attributes* attrs) {
  if constexpr (ReadsItself<typename OpT::Attributes>::value) {
    return attrs->Read(reader);
  } else {
    using Maker = OpMaker<typename OpT::Attributes>;
    static const std::vector<typename Maker::Binding> bindings = [] {
      Maker maker("");
      OpT::Make(maker);
      return maker.bindings();
    }();
    for (const auto& binding : bindings) OPWRIGHT_RETURN_IF_ERROR(binding(reader, attrs));
    return Status::Ok();
  }
}

}  // namespace detail
}  // namespace opwright

#endif  // OPWRIGHT_SDK_OP_MAKER_HPP_
