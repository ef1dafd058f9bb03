// The description of an operator as data, and its serialized form (framework.proto).
#ifndef OPWRIGHT_SDK_OP_DESCRIPTION_HPP_
#define OPWRIGHT_SDK_OP_DESCRIPTION_HPP_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "opwright/abi.h"
#include "opwright/sdk/proto_encoder.hpp"

namespace opwright {
namespace detail {

// The types are in the order of the OW_ATTR_ numbers, which begin with 1.
using AttrValue = std::variant<int64_t, double, std::string, bool, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>, std::vector<bool>>;

struct AttrDescription {
  std::string name;
  std::string comment;
  int32_t type = 0;
  std::optional<AttrValue> default_value;
  std::optional<AttrValue> min;
  std::optional<AttrValue> max;
  bool min_exclusive = false;
  bool max_exclusive = false;
  std::vector<AttrValue> allowed;
  bool required = false;
  bool field_is_optional = false;  // of the struct in C++; not serialized
};

struct SlotDescription {
  std::string name;
  std::string comment;
  bool is_input = true;
  bool duplicable = false;
  bool optional = false;
  bool intermediate = false;
  bool shape_only = false;
  std::vector<std::string> dtypes;
  std::string same_as;
  std::string aliases;
};

// Deques, since makers of single slots and attributes store pointers into them.
struct OpDescription {
  std::string type;
  std::string comment;
  std::deque<SlotDescription> inputs;
  std::deque<SlotDescription> outputs;
  std::deque<AttrDescription> attrs;
  int32_t version = 1;
  std::string dispatch;
  bool dynamic_output = false;
  // Not in the OpProto:
  std::string gradient_type;
  std::vector<std::string> gradient_needs;
  std::string no_gradient_reason;
  bool hidden = false;
};

// Writes an AttrValue: exactly one member, even if it is 0 or an empty list.
struct ValueEncoder {
  ProtoEncoder& value;

  void operator()(int64_t number) { value.Int(1, number); }
  void operator()(double number) { value.Double(2, number); }
  void operator()(const std::string& text) { value.Bytes(3, text); }
  void operator()(bool flag) { value.Int(4, flag ? 1 : 0); }

  void operator()(const std::vector<int64_t>& numbers) {
    ProtoEncoder packed;
    for (int64_t number : numbers) packed.Varint(static_cast<uint64_t>(number));
    Packed(5, packed);
  }
  void operator()(const std::vector<double>& numbers) {
    ProtoEncoder packed;
    for (double number : numbers) packed.FixedDouble(number);
    Packed(6, packed);
  }
  void operator()(const std::vector<std::string>& texts) {
    ProtoEncoder list;
    for (const std::string& text : texts) list.Bytes(1, text);
    value.Bytes(7, list.bytes());
  }
  void operator()(const std::vector<bool>& flags) {
    ProtoEncoder packed;
    for (bool flag : flags) packed.Varint(flag ? 1u : 0u);
    Packed(8, packed);
  }

  void Packed(uint32_t field, const ProtoEncoder& packed) {
    ProtoEncoder list;
    list.String(1, packed.bytes());  // omitted if the list is empty, like any packed field
    value.Bytes(field, list.bytes());
  }
};

inline std::string EncodeValue(const AttrValue& value) {
  ProtoEncoder message;
  std::visit(ValueEncoder{message}, value);
  return message.bytes();
}

inline std::string EncodeAttr(const AttrDescription& attr) {
  ProtoEncoder message;
  message.String(1, attr.name);
  message.String(2, attr.comment);
  message.Int(3, attr.type);
  if (attr.default_value) message.Bytes(4, EncodeValue(*attr.default_value));
  if (attr.min) message.Bytes(5, EncodeValue(*attr.min));
  if (attr.max) message.Bytes(6, EncodeValue(*attr.max));
  message.Flag(7, attr.min_exclusive);
  message.Flag(8, attr.max_exclusive);
  for (const AttrValue& value : attr.allowed) message.Bytes(9, EncodeValue(value));
  message.Flag(10, attr.required);
  return message.bytes();
}

inline std::string EncodeSlot(const SlotDescription& slot) {
  ProtoEncoder message;
  message.String(1, slot.name);
  message.String(2, slot.comment);
  message.Flag(3, slot.duplicable);
  message.Flag(4, slot.optional);
  message.Flag(5, slot.intermediate);
  message.Flag(6, slot.shape_only);
  for (const std::string& dtype : slot.dtypes) message.Bytes(7, dtype);
  message.String(8, slot.same_as);
  message.String(9, slot.aliases);
  return message.bytes();
}

// Returns the same bytes as serializing an `OpProto` in Python.
inline std::string EncodeOp(const OpDescription& op) {
  ProtoEncoder message;
  message.String(1, op.type);
  message.String(2, op.comment);
  for (const SlotDescription& slot : op.inputs) message.Bytes(3, EncodeSlot(slot));
  for (const SlotDescription& slot : op.outputs) message.Bytes(4, EncodeSlot(slot));
  for (const AttrDescription& attr : op.attrs) message.Bytes(5, EncodeAttr(attr));
  message.Int(6, op.version);
  message.String(7, op.dispatch);
  message.Flag(8, op.dynamic_output);
  return message.bytes();
}

}  // namespace detail
}  // namespace opwright

#endif  // OPWRIGHT_SDK_OP_DESCRIPTION_HPP_
