// The subset of protobuf's wire format that an OpProto needs, without linking a protobuf
// library.
#ifndef OPWRIGHT_SDK_PROTO_ENCODER_HPP_
#define OPWRIGHT_SDK_PROTO_ENCODER_HPP_

#include <cstdint>
#include <cstring>
#include <string>

namespace opwright {
namespace detail {

// Appends fields to a message. Fields must be added in ascending order so that equal messages have
// equal bytes; `String` and `Flag` omit values that are proto3's default, as proto3 does.
class ProtoEncoder {
 public:
  const std::string& bytes() const { return bytes_; }

  void String(uint32_t field, const std::string& text) {
    if (!text.empty()) Bytes(field, text);
  }

  void Flag(uint32_t field, bool value) {
    if (value) Int(field, 1);
  }

  // Always written, since its presence identifies which member of a oneof is set.
  void Int(uint32_t field, int64_t value) {
    Tag(field, kVarint);
    Varint(static_cast<uint64_t>(value));
  }

  void Double(uint32_t field, double value) {
    Tag(field, kFixed64);
    FixedDouble(value);
  }

  // A string of a oneof or of a list, or a message.
  void Bytes(uint32_t field, const std::string& content) {
    Tag(field, kLengthDelimited);
    Varint(content.size());
    bytes_ += content;
  }

  // Elements of a packed list, without a tag.
  void Varint(uint64_t value) {
    for (; value >= 0x80u; value >>= 7) bytes_ += static_cast<char>((value & 0x7Fu) | 0x80u);
    bytes_ += static_cast<char>(value);
  }

  void FixedDouble(double value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    for (int byte = 0; byte < 8; ++byte) bytes_ += static_cast<char>((bits >> (8 * byte)) & 0xFFu);
  }

 private:
  enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2 };

  void Tag(uint32_t field, WireType type) { Varint((field << 3) | type); }

  std::string bytes_;
};

}  // namespace detail
}  // namespace opwright

#endif  // OPWRIGHT_SDK_PROTO_ENCODER_HPP_
