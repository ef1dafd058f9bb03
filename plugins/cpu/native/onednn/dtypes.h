// Maps dtypes to oneDNN's data types.
#ifndef OPWRIGHT_CPU_ONEDNN_DTYPES_H_
#define OPWRIGHT_CPU_ONEDNN_DTYPES_H_

#include <type_traits>

#include <opwright/sdk.hpp>

#include "onednn/dnnl.h"

namespace opwright_cpu {

template <typename T>
constexpr dnnl::memory::data_type OneDnnType() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, opwright::BFloat16>,
                "oneDNN computes float32 and bfloat16 here");
  return std::is_same_v<T, float> ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

// Whether oneDNN supports this dtype on at least some processors.
template <typename T>
constexpr bool kIsOneDnnType = std::is_same_v<T, float> || std::is_same_v<T, opwright::BFloat16>;

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ONEDNN_DTYPES_H_
