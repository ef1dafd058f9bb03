#include "gemm/gemm.h"

#include "gemm/gemm_isa.h"

namespace opwright_cpu {
namespace {

template <typename T>
GemmFn<T> Choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return &GemmAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &GemmAvx2;
#endif
  return &GemmBaseline;
}

}  // namespace

template <>
GemmFn<float> BestGemm<float>() {
  return Choose<float>();
}

template <>
GemmFn<double> BestGemm<double>() {
  return Choose<double>();
}

}  // namespace opwright_cpu
