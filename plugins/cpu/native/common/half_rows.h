// Rows of 16-bit floats, to float and back: everything that kernels of float16 and bfloat16 need.
// They compute in float and round once, when they store. A kernel adds for them:
//
// 1. an element-wise function: nothing. A function of elementwise/map.h that is added for float is
//    there for both dtypes, and OPWRIGHT_CPU_REGISTER registers its kernel for them: MapKernel
//    widens blocks of its operands in the first-level cache and rounds the block of results;
// 2. a kernel that goes through lines or blocks: HalfRowsOf(dtype) and its two functions, and an
//    accumulator of float (double if that for float has one); register it for
//    OPWRIGHT_CPU_HALVES, too;
// 3. every other kernel: OPWRIGHT_CPU_REGISTER_WIDENED of common/widened.h, one line, which runs
//    the kernel for float between copies of its tensors.
//
// Which instructions convert is decided at run time. Those for float16 are the processor's own from
// AVX2 on (F16C). For bfloat16 there is one, too (AVX512-BF16), but it treats denormals as zeros: a
// few operations on whole numbers are as fast as memory and right.
#ifndef OPWRIGHT_CPU_COMMON_HALF_ROWS_H_
#define OPWRIGHT_CPU_COMMON_HALF_ROWS_H_

#include <cstdint>
#include <opwright/sdk.hpp>
#include <type_traits>

namespace opwright_cpu {

// Converts n elements; `from` and `to` do not overlap. A float is rounded to the nearest 16-bit
// one, halves to even; a NaN stays one.
struct HalfRows {
  void (*widen)(const void* from, float* to, int64_t n) = nullptr;
  void (*narrow)(const float* from, void* to, int64_t n) = nullptr;
};

// Whether it is float16 or bfloat16.
constexpr bool IsHalf(DLDataType dtype) {
  return dtype.bits == 16 && (dtype.code == kDLFloat || dtype.code == kDLBfloat);
}

// The conversions of float16 or bfloat16, with the instructions of this processor.
const HalfRows& HalfRowsOf(DLDataType dtype);

// The dtype in which kernels compute with elements of `dtype`.
constexpr DLDataType WideDtype(DLDataType dtype) {
  return IsHalf(dtype) ? opwright::DtypeOf<float>() : dtype;
}

// The number of a 16-bit float that is nearest to `value`; of another dtype, `value` itself.
double RoundedTo(DLDataType dtype, double value);

namespace detail {

template <typename Attrs, typename = void>
struct HasRoundTo : std::false_type {};
template <typename Attrs>
struct HasRoundTo<Attrs, std::void_t<decltype(&Attrs::RoundTo)>> : std::true_type {};

}  // namespace detail

// Attributes that elements are compared with are rounded to the dtype of the elements, by a
// function RoundTo(dtype) of their struct.
template <typename Attrs>
Attrs AttributesIn(DLDataType dtype, Attrs attrs) {
  if constexpr (detail::HasRoundTo<Attrs>::value) attrs.RoundTo(dtype);
  return attrs;
}

}  // namespace opwright_cpu

// The 16-bit floats in a list of dtypes.
#define OPWRIGHT_CPU_HALVES opwright::Float16, opwright::BFloat16

#endif  // OPWRIGHT_CPU_COMMON_HALF_ROWS_H_
