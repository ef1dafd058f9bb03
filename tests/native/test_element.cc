// Reading and writing an element does not change it; unrepresentable numbers are rounded once.
#include <opwright/sdk/element.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <type_traits>

namespace {

using opwright::BFloat16;
using opwright::Float16;

static_assert(std::is_same_v<opwright::NumberOf<Float16>, float>);
static_assert(std::is_same_v<opwright::NumberOf<BFloat16>, float>);
static_assert(std::is_same_v<opwright::NumberOf<double>, double>);
static_assert(std::is_same_v<opwright::NumberOf<int64_t>, int64_t>);

int faults = 0;

void Check(bool is_right, const char* what, unsigned bits) {
  if (is_right) return;
  std::printf("%s: %#x\n", what, bits);
  ++faults;
}

template <typename E>
void CheckAll(const char* name) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float number = opwright::ReadElement(E{static_cast<uint16_t>(bits)});
    const E back = opwright::WriteElement<E>(number);
    const bool is_same = back.bits == bits;
    Check(std::isnan(number) ? std::isnan(opwright::ReadElement(back)) : is_same, name, bits);
  }
}

}  // namespace

int main() {
  CheckAll<Float16>("float16");
  CheckAll<BFloat16>("bfloat16");
  Check(opwright::RoundedElement<BFloat16>(1.001f) == 1.0f, "a bfloat16 has 8 bits", 0);
  Check(opwright::RoundedElement<Float16>(2049.0f) == 2048.0f, "halves go to even", 0);
  Check(opwright::RoundedElement<float>(1.001f) == 1.001f, "a float stays as it is", 0);
  Check(opwright::WriteElement<int64_t>(opwright::ReadElement(INT64_MAX)) == INT64_MAX, "int64", 0);
  return faults == 0 ? 0 : 1;
}
