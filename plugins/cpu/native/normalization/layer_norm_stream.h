// layer_norm for rows whose results bypass the caches.
#ifndef OPWRIGHT_CPU_NORMALIZATION_LAYER_NORM_STREAM_H_
#define OPWRIGHT_CPU_NORMALIZATION_LAYER_NORM_STREAM_H_

#include <cstdint>

namespace opwright_cpu {

// The minimum number of elements and the maximum number of bytes of supported rows. Three rows must
// fit into the L2 cache together with scale and bias.
constexpr int64_t kLeastStreamedRow = 128;
constexpr int64_t kMostStreamedRowBytes = int64_t{128} << 10;

// Computes out = (x - mean) * inv_std * scale + bias for n_rows rows of n elements. `out` must not
// be `x`.
template <typename T>
void StreamNormalizedRows(const T* x, const T* scale, const T* bias, int64_t n_rows, int64_t n,
                          T epsilon, T* out, T* means, T* inv_stds);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_NORMALIZATION_LAYER_NORM_STREAM_H_
