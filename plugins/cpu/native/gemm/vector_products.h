// Products with few rows, as with a batch size of 1. Such products are memory-bound, since each
// weight is read once, in storage order.
#ifndef OPWRIGHT_CPU_GEMM_VECTOR_PRODUCTS_H_
#define OPWRIGHT_CPU_GEMM_VECTOR_PRODUCTS_H_

#include <cstdint>

namespace opwright_cpu {

// Up to this number of batch rows, these functions are faster than a tiled matrix product.
constexpr int64_t kFewRows = 3;

// Computes out[j] = sum over p of x[p] * w[p * stride + j], for w [k, n].
template <typename T>
void VectorTimesMatrix(const T* x, const T* w, int64_t stride, int64_t k, int64_t n, T* out);

// Computes out[i] = sum over j of w[i * stride + j] * x[j], for w [rows, n].
template <typename T>
void MatrixTimesVector(const T* w, int64_t stride, const T* x, int64_t rows, int64_t n, T* out);

// Computes w[i * n + j] = beta * w[i * n + j] + alpha * x[i] * y[j], for w [rows, n].
template <typename T>
void UpdateByOuterProduct(const T* x, const T* y, int64_t rows, int64_t n, T alpha, T beta, T* w);

// Computes sums[j] = sum over i of y[i * n + j], for y [rows, n].
template <typename T>
void SumColumns(const T* y, int64_t rows, int64_t n, T* sums);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_GEMM_VECTOR_PRODUCTS_H_
