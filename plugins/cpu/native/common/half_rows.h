// Converts rows of 16-bit floats to float and back, for float16 and bfloat16 kernels. These kernels
// compute in float and round once, when they store. There are three ways to support 16-bit floats:
//
// 1. element-wise functions are supported without changes. A function of elementwise/map.h that is
//    added for float is available for both dtypes, and OPWRIGHT_CPU_REGISTER registers its kernel
//    for them: MapKernel widens blocks of its operands in the first-level cache and rounds the
//    block of results;
// 2. a kernel that processes lines or blocks calls HalfRowsOf(dtype) and its two functions, and
//    accumulates in float (in double if the kernel for float does); it is registered for
//    OPWRIGHT_CPU_HALVES as well;
// 3. every other kernel is registered by one line, OPWRIGHT_CPU_REGISTER_WIDENED of
//    common/widened.h, which runs the kernel for float on converted copies of its tensors.
//
// The conversion instructions are selected at run time. For float16, processors with AVX2 have
// instructions (F16C). The instruction for bfloat16 (AVX512-BF16) treats denormals as zeros, so a
// few integer operations, which run at memory speed, are used instead.
#ifndef OPWRIGHT_CPU_COMMON_HALF_ROWS_H_
#define OPWRIGHT_CPU_COMMON_HALF_ROWS_H_

#include <cstdint>
#include <opwright/sdk.hpp>
#include <type_traits>

namespace opwright_cpu {

// Functions that convert n elements; `from` and `to` do not overlap. A float is rounded to the
// nearest 16-bit float, ties to even; NaN stays NaN.
struct HalfRows {
  void (*widen)(const void* from, float* to, int64_t n) = nullptr;
  void (*narrow)(const float* from, void* to, int64_t n) = nullptr;
};

// Returns whether `dtype` is float16 or bfloat16.
constexpr bool IsHalf(DLDataType dtype) {
  return dtype.bits == 16 && (dtype.code == kDLFloat || dtype.code == kDLBfloat);
}

// Returns the conversions of float16 or bfloat16 that use this processor's instructions.
const HalfRows& HalfRowsOf(DLDataType dtype);

// Returns the dtype in which kernels compute with elements of `dtype`.
constexpr DLDataType WideDtype(DLDataType dtype) {
  return IsHalf(dtype) ? opwright::DtypeOf<float>() : dtype;
}

// Rounds `value` to the nearest number of a 16-bit dtype; returns it unchanged for other dtypes.
double RoundedTo(DLDataType dtype, double value);

namespace detail {

template <typename Attrs, typename = void>
struct HasRoundTo : std::false_type {};
template <typename Attrs>
struct HasRoundTo<Attrs, std::void_t<decltype(&Attrs::RoundTo)>> : std::true_type {};

}  // namespace detail

// If the struct of attributes has a function RoundTo(dtype), calls it. RoundTo rounds attributes
// that are compared with elements to the dtype of the elements.
template <typename Attrs>
Attrs AttributesIn(DLDataType dtype, Attrs attrs) {
  if constexpr (detail::HasRoundTo<Attrs>::value) attrs.RoundTo(dtype);
  return attrs;
}

}  // namespace opwright_cpu

// The 16-bit floats, for use in a list of dtypes.
#define OPWRIGHT_CPU_HALVES opwright::Float16, opwright::BFloat16

#endif  // OPWRIGHT_CPU_COMMON_HALF_ROWS_H_
