// Products and sums of runs for each instruction set; `BestGemm` and `BestRunSums` select one.
#ifndef OPWRIGHT_CPU_GEMM_GEMM_ISA_H_
#define OPWRIGHT_CPU_GEMM_GEMM_ISA_H_

#include "gemm/gemm.h"
#include "gemm/run_sums.h"

namespace opwright_cpu {

void GemmBaseline(const GemmCall<float>& call);
void GemmBaseline(const GemmCall<double>& call);
void GemmBaseline(const GemmCall<uint32_t>& call);
void GemmBaseline(const GemmCall<uint64_t>& call);
extern const PanelGemm kPanelGemmBaseline;
void SumRunsBaseline(const RunSums& call);
#if defined(__x86_64__)
void GemmAvx2(const GemmCall<float>& call);
void GemmAvx2(const GemmCall<double>& call);
void GemmAvx2(const GemmCall<uint32_t>& call);
void GemmAvx2(const GemmCall<uint64_t>& call);
extern const PanelGemm kPanelGemmAvx2;
void SumRunsAvx2(const RunSums& call);
void GemmAvx512(const GemmCall<float>& call);
void GemmAvx512(const GemmCall<double>& call);
void GemmAvx512(const GemmCall<uint32_t>& call);
void GemmAvx512(const GemmCall<uint64_t>& call);
extern const PanelGemm kPanelGemmAvx512;
void SumRunsAvx512(const RunSums& call);
#endif

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_GEMM_GEMM_ISA_H_
