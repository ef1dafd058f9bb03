// AVX2 has sixteen 256-bit registers, which suit tiles of 6 rows and 2 vectors.
#if defined(__x86_64__)
#pragma GCC target("avx2,fma")

#include "gemm/gemm_isa.h"
#include "gemm/gemm_kernel.h"
#include "gemm/run_sums_kernel.h"

namespace opwright_cpu {

void GemmAvx2(const GemmCall<float>& call) { Gemm<float, 8, 6, 2>(call); }
void GemmAvx2(const GemmCall<double>& call) { Gemm<double, 4, 6, 2>(call); }
void GemmAvx2(const GemmCall<uint32_t>& call) { Gemm<uint32_t, 8, 6, 2>(call); }
void GemmAvx2(const GemmCall<uint64_t>& call) { Gemm<uint64_t, 4, 6, 2>(call); }
const PanelGemm kPanelGemmAvx2{16, &LaidPanel<float, 8, 6, 2>, &CachedPanel<float, 8, 2>};
void SumRunsAvx2(const RunSums& call) { SumRunsFrom<8, 6>(call, 0); }

}  // namespace opwright_cpu

#endif
