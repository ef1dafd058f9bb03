// The dtypes of opwright as C++ types, as DLPack's numbers and by their canonical names.
#ifndef OPWRIGHT_SDK_DTYPES_HPP_
#define OPWRIGHT_SDK_DTYPES_HPP_

#include <cstdint>
#include <string>

#include "opwright/abi.h"

namespace opwright {

// The bits of a 16-bit float; C++17 does not have such an arithmetic type.
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// The bits of an 8-bit float; integers of four bits, each in the low half of a byte.
struct Float8E4M3Fn {
  uint8_t bits;
};
struct Float8E5M2 {
  uint8_t bits;
};
struct Int4 {
  uint8_t bits;
};
struct UInt4 {
  uint8_t bits;
};

// Registers one kernel, Kernel<AnyDtype>, for all dtypes except the four narrow ones.
struct AnyDtype {};
// Registers a kernel for the four narrow dtypes: Float8E4M3Fn, Float8E5M2, Int4 and UInt4.
struct NarrowDtypes {};

namespace detail {

template <typename T>
struct DtypeTraits;  // undefined for types without a dtype; float64 is double, int64 is int64_t

#define OPWRIGHT_DTYPE_(type, dl_code, dl_bits) \
  template <>                                   \
  struct DtypeTraits<type> {                    \
    static constexpr uint8_t kCode = dl_code;   \
    static constexpr uint8_t kBits = dl_bits;   \
  }
OPWRIGHT_DTYPE_(bool, kDLBool, 8);
OPWRIGHT_DTYPE_(int8_t, kDLInt, 8);
OPWRIGHT_DTYPE_(int16_t, kDLInt, 16);
OPWRIGHT_DTYPE_(int32_t, kDLInt, 32);
OPWRIGHT_DTYPE_(int64_t, kDLInt, 64);
OPWRIGHT_DTYPE_(uint8_t, kDLUInt, 8);
OPWRIGHT_DTYPE_(uint16_t, kDLUInt, 16);
OPWRIGHT_DTYPE_(uint32_t, kDLUInt, 32);
OPWRIGHT_DTYPE_(uint64_t, kDLUInt, 64);
OPWRIGHT_DTYPE_(Float16, kDLFloat, 16);
OPWRIGHT_DTYPE_(BFloat16, kDLBfloat, 16);
OPWRIGHT_DTYPE_(float, kDLFloat, 32);
OPWRIGHT_DTYPE_(double, kDLFloat, 64);
OPWRIGHT_DTYPE_(Float8E4M3Fn, kDLFloat8_e4m3fn, 8);
OPWRIGHT_DTYPE_(Float8E5M2, kDLFloat8_e5m2, 8);
OPWRIGHT_DTYPE_(Int4, kDLInt, 4);
OPWRIGHT_DTYPE_(UInt4, kDLUInt, 4);
#undef OPWRIGHT_DTYPE_

struct NamedDtype {
  const char* name;
  uint8_t code;
  uint8_t bits;
};

inline constexpr NamedDtype kDtypes[] = {
    {"bool", kDLBool, 8},
    {"int8", kDLInt, 8},
    {"int16", kDLInt, 16},
    {"int32", kDLInt, 32},
    {"int64", kDLInt, 64},
    {"uint8", kDLUInt, 8},
    {"uint16", kDLUInt, 16},
    {"uint32", kDLUInt, 32},
    {"uint64", kDLUInt, 64},
    {"float16", kDLFloat, 16},
    {"bfloat16", kDLBfloat, 16},
    {"float32", kDLFloat, 32},
    {"float64", kDLFloat, 64},
    {"int4", kDLInt, 4},
    {"float8_e4m3fn", kDLFloat8_e4m3fn, 8},
    {"uint4", kDLUInt, 4},
    {"float8_e5m2", kDLFloat8_e5m2, 8},
};

inline constexpr DLDataType kNarrowDtypes[] = {
    {kDLFloat8_e4m3fn, 8, 1}, {kDLFloat8_e5m2, 8, 1}, {kDLInt, 4, 1}, {kDLUInt, 4, 1}};

inline bool IsDtypeName(const std::string& name) {
  for (const NamedDtype& dtype : kDtypes) {
    if (name == dtype.name) return true;
  }
  return false;
}

// Whether a dtype with this name can have a gradient.
inline bool IsFloatName(const std::string& name) {
  return IsDtypeName(name) && name.find("float") != std::string::npos &&
         name.compare(0, 6, "float8") != 0;
}

}  // namespace detail

// DLPack's type of a C++ type: DtypeOf<float>() is float32.
template <typename T>
constexpr DLDataType DtypeOf() {
  return DLDataType{detail::DtypeTraits<T>::kCode, detail::DtypeTraits<T>::kBits, 1};
}

constexpr bool SameDtype(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

// The canonical name, such as "float32".
inline std::string DtypeName(DLDataType dtype) {
  for (const detail::NamedDtype& known : detail::kDtypes) {
    if (dtype.code == known.code && dtype.bits == known.bits && dtype.lanes == 1) return known.name;
  }
  return "DLPack type " + std::to_string(dtype.code) + " of " + std::to_string(dtype.bits) +
         " bits";
}

}  // namespace opwright

#endif  // OPWRIGHT_SDK_DTYPES_HPP_
