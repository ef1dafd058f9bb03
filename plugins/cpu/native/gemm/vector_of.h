// SIMD vector types for the files of one instruction set. Everything in this file is static; see
// gemm_kernel.h.
#ifndef OPWRIGHT_CPU_GEMM_VECTOR_OF_H_
#define OPWRIGHT_CPU_GEMM_VECTOR_OF_H_

namespace opwright_cpu {
namespace {

template <typename T, int kLanes>
struct VectorOf {
  // The alignment is smaller than the size, because matrix rows may begin anywhere.
  // NOLINTNEXTLINE(modernize-use-using): GCC ignores attributes of dependent types there
  typedef T Type __attribute__((vector_size(kLanes * sizeof(T)), aligned(sizeof(T)), may_alias));
};

#define OPWRIGHT_CPU_TILE static inline __attribute__((always_inline))

}  // namespace
}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_GEMM_VECTOR_OF_H_
