// The GPU kernels, with one block for each row; the formulas are in cosine.h.
#include "cosine.h"

#include "reduce.h"

using namespace opwright_cuda;

template <typename T>
OW_INLINE cosine::Sums SumRow(const T* a, const T* b, int64_t k) {
  cosine::Add add;
  cosine::Sums sums = cosine::Add::Identity();
  for (int64_t j = threadIdx.x; j < k; j += blockDim.x) {
    sums = add(sums, cosine::TermOf(a[j], b[j]));
  }
  return BlockReduce(sums, add);
}

template <typename T>
__global__ void cosine_rows(T* out, const T* a, const T* b, int64_t k, double scale) {
  const int64_t begin = blockIdx.x * k;
  const cosine::Sums sums = SumRow(a + begin, b + begin, k);
  if (threadIdx.x == 0) out[blockIdx.x] = static_cast<T>(cosine::Similarity{scale}(sums));
}

// `a_grad` or `b_grad` is null if it is not requested.
template <typename T>
__global__ void cosine_rows_grad(T* a_grad, T* b_grad, const T* a, const T* b, const T* out_grad,
                                 int64_t k, double scale) {
  const int64_t begin = blockIdx.x * k;
  const cosine::Sums sums = SumRow(a + begin, b + begin, k);
  const double factor = scale * static_cast<double>(out_grad[blockIdx.x]);
  const cosine::Gradient a_gradient(sums, sums.a_square, factor);
  const cosine::Gradient b_gradient(sums, sums.b_square, factor);
  for (int64_t j = begin + threadIdx.x; j < begin + k; j += blockDim.x) {
    if (a_grad != nullptr) a_grad[j] = a_gradient.At(a[j], b[j]);
    if (b_grad != nullptr) b_grad[j] = b_gradient.At(b[j], a[j]);
  }
}
