#include "runtime/bundle/tokens.h"

#include <cstring>

namespace opwright {

namespace {
// The tags that `opwright.bundle.tokens` writes.
enum Tag : uint8_t { kInt = 0, kAffine = 1, kText = 2, kSameText = 3, kDouble = 4 };
}  // namespace

const uint8_t* Tokens::Take(size_t size) {
  if (size > left()) Fail("must go on for ", size, " bytes, got ", left());
  const uint8_t* bytes = data_ + at_;
  at_ += size;
  return bytes;
}

uint8_t Tokens::Byte() { return *Take(1); }

uint64_t Tokens::Varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = Byte();
    const uint64_t bits = byte & 0x7f;
    if (shift == 63 && bits > 1) break;
    value |= bits << shift;
    if ((byte & 0x80) == 0) return value;
  }
  Fail("a number must fit in 64 bits, got a longer one");
}

int64_t Tokens::Signed() {
  const uint64_t value = Varint();
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

Affine Tokens::ReadAffine() {
  const uint8_t tag = Byte();
  if (tag == kInt) return {0, Signed()};
  if (tag != kAffine) Fail("expected a number, got a token of kind ", int{tag});
  const int64_t step = Signed();
  return {step, Signed()};
}

int64_t Tokens::Int() {
  const Affine value = ReadAffine();
  int64_t result = 0;
  if (__builtin_mul_overflow(value.step, batch_, &result) ||
      __builtin_add_overflow(result, value.base, &result)) {
    Fail("a number must fit in 64 bits, got ", value.step, " * ", batch_, " + ", value.base);
  }
  return result;
}

void Tokens::Spend(size_t text_bytes) {
  if (text_bytes > text_bytes_left_)
    Fail("its strings must have at most 64 MiB in total, got more");
  text_bytes_left_ -= text_bytes;
}

std::string Tokens::Text() {
  const uint8_t tag = Byte();
  const uint64_t number = Varint();
  if (tag == kSameText) {
    if (number >= texts_.size()) Fail("a repeated string must occur earlier, got number ", number);
    Spend(texts_[number].size());
    return texts_[number];
  }
  if (tag != kText) Fail("expected a string, got a token of kind ", int{tag});
  const uint8_t* bytes = Take(number);
  Spend(number);
  return texts_.emplace_back(reinterpret_cast<const char*>(bytes), number);
}

double Tokens::Double() {
  const uint8_t tag = Byte();
  if (tag != kDouble) Fail("expected a double, got a token of kind ", int{tag});
  double value = 0;
  std::memcpy(&value, Take(sizeof(value)), sizeof(value));
  return value;
}

}  // namespace opwright
