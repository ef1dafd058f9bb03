// AVX-512 has thirty-two 512-bit registers, which suit tiles of 8 rows and 3 vectors.
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,prefer-vector-width=512")

#include "gemm/gemm_isa.h"
#include "gemm/gemm_kernel.h"
#include "gemm/run_sums_kernel.h"

namespace opwright_cpu {

void GemmAvx512(const GemmCall<float>& call) { Gemm<float, 16, 8, 3>(call); }
void GemmAvx512(const GemmCall<double>& call) { Gemm<double, 8, 8, 3>(call); }
void GemmAvx512(const GemmCall<uint32_t>& call) { Gemm<uint32_t, 16, 8, 3>(call); }
void GemmAvx512(const GemmCall<uint64_t>& call) { Gemm<uint64_t, 8, 8, 3>(call); }
const PanelGemm kPanelGemmAvx512{64, &LaidPanel<float, 16, 6, 4>, &CachedPanel<float, 16, 4>};
void SumRunsAvx512(const RunSums& call) { SumRunsFrom<16, 7>(call, 0); }

}  // namespace opwright_cpu

#endif
