// Reads and writes elements in the data types of the emulated libraries.
#ifndef OPWRIGHT_CUDA_EMULATOR_ELEMENTS_H_
#define OPWRIGHT_CUDA_EMULATOR_ELEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace emulator {

// Values of cudaDataType.
constexpr int kFloat = 0;
constexpr int kDouble = 1;
constexpr int kHalf = 2;
constexpr int kBFloat16 = 14;

inline size_t SizeOf(int type) { return type == kDouble ? 8 : type == kFloat ? 4 : 2; }

inline double Read(const char* base, int64_t index, int type) {
  const char* at = base + index * static_cast<int64_t>(SizeOf(type));
  if (type == kDouble) return *reinterpret_cast<const double*>(at);
  if (type == kFloat) return *reinterpret_cast<const float*>(at);
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  if (type == kHalf) {
    _Float16 half;
    std::memcpy(&half, &bits, sizeof(half));
    return static_cast<double>(half);
  }
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

inline void Write(char* base, int64_t index, int type, double value) {
  char* at = base + index * static_cast<int64_t>(SizeOf(type));
  if (type == kDouble) {
    std::memcpy(at, &value, sizeof(value));
    return;
  }
  const auto single = static_cast<float>(value);
  if (type == kFloat) {
    std::memcpy(at, &single, sizeof(single));
  } else if (type == kHalf) {
    const auto half = static_cast<_Float16>(value);
    std::memcpy(at, &half, sizeof(half));
  } else {
    uint32_t bits;
    std::memcpy(&bits, &single, sizeof(bits));
    const bool is_nan = single != single;
    const auto rounded = static_cast<uint16_t>(
        is_nan ? (bits >> 16) | 0x40u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    std::memcpy(at, &rounded, sizeof(rounded));
  }
}

}  // namespace emulator

#endif  // OPWRIGHT_CUDA_EMULATOR_ELEMENTS_H_
