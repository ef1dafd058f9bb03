#include "matmul/gemm.h"

#include <algorithm>
#include <type_traits>

#include "common/clones.h"
#include "gemm/gemm.h"
#include "gemm/vector_products.h"

namespace opwright_cpu {
namespace {

template <typename T>
void FloatGemm(const GemmSize& size, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
               T* workspace) {
  if (size.m == 1 && a.column_stride == 1) {
    if (b.column_stride == 1) {
      return VectorTimesMatrix(a.data, b.data, b.row_stride, size.k, size.n, c.data);
    }
    if (b.row_stride == 1) {
      return MatrixTimesVector(b.data, b.column_stride, a.data, size.n, size.k, c.data);
    }
  }
  static const GemmFn<T> multiply = BestGemm<T>();
  multiply(GemmCall<T>{size.m, size.n, size.k, a.data, a.row_stride, a.column_stride, b.data,
                       b.row_stride, b.column_stride, c.data, c.row_stride, T(1), T(0), workspace});
}

// Sums wrap around as in NumPy; C++ defines this only for unsigned integers of at least 32 bits.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <typename T>
OPWRIGHT_CPU_CLONES void AddScaledRow(int64_t n, T factor, const T* row, int64_t stride, T* out) {
  for (int64_t j = 0; j < n; ++j) {
    out[j] = static_cast<T>(static_cast<Wrapping<T>>(out[j]) +
                            static_cast<Wrapping<T>>(factor) *
                                static_cast<Wrapping<T>>(row[j * stride]));
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES T WrappingDot(int64_t k, const T* x, int64_t x_stride, const T* y) {
  Wrapping<T> sum = 0;
  for (int64_t p = 0; p < k; ++p) {
    sum += static_cast<Wrapping<T>>(x[p * x_stride]) * static_cast<Wrapping<T>>(y[p]);
  }
  return static_cast<T>(sum);
}

// From this number of rows on, copying a panel of b pays off, since each row reads the panel.
constexpr int64_t kTiledRows = 4;

// Products and sums of signed and unsigned integers have the same low bits.
template <typename T>
void TiledIntegerGemm(const GemmSize& size, MatrixView<const T> a, MatrixView<const T> b,
                      MatrixView<T> c, void* workspace) {
  using Unsigned = std::make_unsigned_t<T>;
  static const GemmFn<Unsigned> multiply = BestGemm<Unsigned>();
  multiply(GemmCall<Unsigned>{
      size.m, size.n, size.k, reinterpret_cast<const Unsigned*>(a.data), a.row_stride,
      a.column_stride, reinterpret_cast<const Unsigned*>(b.data), b.row_stride, b.column_stride,
      reinterpret_cast<Unsigned*>(c.data), c.row_stride, 1, 0, static_cast<Unsigned*>(workspace)});
}

template <typename T>
void IntegerGemm(const GemmSize& size, MatrixView<const T> a, MatrixView<const T> b,
                 MatrixView<T> c, void* workspace) {
  if constexpr (sizeof(T) >= 4) {
    if (size.m >= kTiledRows) return TiledIntegerGemm<T>(size, a, b, c, workspace);
  }
  const bool by_columns = b.column_stride != 1 && b.row_stride == 1;
  for (int64_t i = 0; i < size.m; ++i) {
    T* out = c.At(i, 0).data;
    if (by_columns) {
      for (int64_t j = 0; j < size.n; ++j) {
        out[j] = WrappingDot<T>(size.k, a.At(i, 0).data, a.column_stride, b.At(0, j).data);
      }
      continue;
    }
    std::fill(out, out + size.n, T(0));
    for (int64_t p = 0; p < size.k; ++p) {
      AddScaledRow<T>(size.n, *a.At(i, p).data, b.At(p, 0).data, b.column_stride, out);
    }
  }
}

}  // namespace

template <typename T>
void Gemm(const GemmSize& size, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
          void* workspace) {
  if constexpr (std::is_floating_point_v<T>) {
    if (size.n == 1 && size.m > 1 && c.row_stride == 1) {
      // A single column is computed as a row of the transposed product, since a row is contiguous.
      const GemmSize turned{1, size.m, size.k};
      FloatGemm<T>(turned, b.Transposed(), a.Transposed(), c.Transposed(),
                   static_cast<T*>(workspace));
      return;
    }
    FloatGemm<T>(size, a, b, c, static_cast<T*>(workspace));
  } else {
    IntegerGemm<T>(size, a, b, c, workspace);
  }
}

#define OPWRIGHT_CPU_GEMM(T)                                                                      \
  template void Gemm<T>(const GemmSize&, MatrixView<const T>, MatrixView<const T>, MatrixView<T>, \
                        void*)
OPWRIGHT_CPU_GEMM(float);
OPWRIGHT_CPU_GEMM(double);
OPWRIGHT_CPU_GEMM(int8_t);
OPWRIGHT_CPU_GEMM(int16_t);
OPWRIGHT_CPU_GEMM(int32_t);
OPWRIGHT_CPU_GEMM(int64_t);
OPWRIGHT_CPU_GEMM(uint8_t);
OPWRIGHT_CPU_GEMM(uint16_t);
OPWRIGHT_CPU_GEMM(uint32_t);
OPWRIGHT_CPU_GEMM(uint64_t);
#undef OPWRIGHT_CPU_GEMM

}  // namespace opwright_cpu
