// The product for every processor; x86-64 has sixteen 128-bit registers.
#include "gemm/gemm_isa.h"
#include "gemm/gemm_kernel.h"
#include "gemm/run_sums_kernel.h"

namespace opwright_cpu {

void GemmBaseline(const GemmCall<float>& call) { Gemm<float, 4, 4, 2>(call); }
void GemmBaseline(const GemmCall<double>& call) { Gemm<double, 2, 4, 2>(call); }
void GemmBaseline(const GemmCall<uint32_t>& call) { Gemm<uint32_t, 4, 4, 2>(call); }
void GemmBaseline(const GemmCall<uint64_t>& call) { Gemm<uint64_t, 2, 4, 2>(call); }
const PanelGemm kPanelGemmBaseline{16, &LaidPanel<float, 4, 2, 4>, &CachedPanel<float, 4, 4>};
void SumRunsBaseline(const RunSums& call) { SumRunsFrom<4, 3>(call, 0); }

}  // namespace opwright_cpu
