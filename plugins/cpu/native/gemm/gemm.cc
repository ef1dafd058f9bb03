#include "gemm/gemm.h"

#include "gemm/gemm_isa.h"
#include "gemm/run_sums.h"

namespace opwright_cpu {
#if defined(__x86_64__)
namespace {

// Selects one of three functions for the current processor.
template <typename Fn>
Fn Choose(Fn avx512, Fn avx2, Fn baseline) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return avx512;
  }
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? avx2 : baseline;
}

}  // namespace

#define OPWRIGHT_CPU_CHOOSE(Fn, name) Choose<Fn>(&name##Avx512, &name##Avx2, &name##Baseline)
#else
#define OPWRIGHT_CPU_CHOOSE(Fn, name) static_cast<Fn>(&name##Baseline)
#endif

template <>
GemmFn<float> BestGemm<float>() {
  return OPWRIGHT_CPU_CHOOSE(GemmFn<float>, Gemm);
}

template <>
GemmFn<double> BestGemm<double>() {
  return OPWRIGHT_CPU_CHOOSE(GemmFn<double>, Gemm);
}

template <>
GemmFn<uint32_t> BestGemm<uint32_t>() {
  return OPWRIGHT_CPU_CHOOSE(GemmFn<uint32_t>, Gemm);
}

template <>
GemmFn<uint64_t> BestGemm<uint64_t>() {
  return OPWRIGHT_CPU_CHOOSE(GemmFn<uint64_t>, Gemm);
}

PanelGemm BestPanelGemm() { return *OPWRIGHT_CPU_CHOOSE(const PanelGemm*, kPanelGemm); }

RunSumsFn BestRunSums() { return OPWRIGHT_CPU_CHOOSE(RunSumsFn, SumRuns); }

#undef OPWRIGHT_CPU_CHOOSE

}  // namespace opwright_cpu
