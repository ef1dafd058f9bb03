// The products for each instruction set; `BestGemm` chooses between them.
#ifndef OPWRIGHT_CPU_GEMM_GEMM_ISA_H_
#define OPWRIGHT_CPU_GEMM_GEMM_ISA_H_

#include "gemm/gemm.h"

namespace opwright_cpu {

void GemmBaseline(const GemmCall<float>& call);
void GemmBaseline(const GemmCall<double>& call);
#if defined(__x86_64__)
void GemmAvx2(const GemmCall<float>& call);
void GemmAvx2(const GemmCall<double>& call);
void GemmAvx512(const GemmCall<float>& call);
void GemmAvx512(const GemmCall<double>& call);
#endif

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_GEMM_GEMM_ISA_H_
