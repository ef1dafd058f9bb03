// Max and average pooling with small windows. A thread computes the windows of a strip.
#include "kernel.h"
#include "pooling_small.h"

using namespace opwright_cuda;

// Of equal elements, the first wins; NaN is greater than every number.
template <typename Value>
OW_INLINE bool IsGreater(Value value, Value than) {
  return !(value <= than) && than == than;
}

// The maxima of `n` channels, and their indices.
template <typename Value, int n>
struct Greatest {
  Value values[n];
  int32_t places[n];

  OW_INLINE void Join(const Greatest& later, int32_t shift) {
#pragma unroll
    for (int c = 0; c < n; ++c) {
      const bool is_greater = IsGreater(later.values[c], values[c]);
      values[c] = is_greater ? later.values[c] : values[c];
      places[c] = is_greater ? later.places[c] + shift : places[c];
    }
  }
};

// Processes `many` vertically adjacent windows. Padding is replaced by the nearest element of the
// image, which is also in the window, so the maximum and its first index do not change. `index` may
// be null.
template <typename T, bool is_single, int n, typename Window, int many>
__global__ void __launch_bounds__(kThreads)
    pool_max_small(T* out, int32_t* index, const T* x, Strips p) {
  using Found = Greatest<Compute<T>, n>;
  const int64_t number = GlobalIndex();
  if (number >= p.n_threads) return;
  const Strip<is_single> at = StripAt<is_single, n>(number, p);
  const int32_t left = at.column * Window::kAcross - p.w.before;
  const int32_t top = at.strip * many * Window::kDown - p.h.before;
  Found best[many];
#pragma unroll
  for (int r = 0; r < (many - 1) * Window::kDown + Window::kRows; ++r) {
    if (r % Window::kDown >= Window::kRows) continue;  // between windows
    const int32_t row = Nearest(top + r, p.h.size);
    Found of_row;
#pragma unroll
    for (int k = 0; k < Window::kColumns; ++k) {
      const int32_t column = Nearest(left + k, p.w.size);
      const auto stored = ReadVector<n>(x + at.OffsetAt(row, column, p.h.size, p.w.size));
      Found one;
#pragma unroll
      for (int c = 0; c < n; ++c) {
        one.values[c] = Load(stored.at[c]);
        one.places[c] = column;
      }
      if (k == 0) {
        of_row = one;
      } else {
        of_row.Join(one, 0);
      }
    }
    const int32_t begin = row * p.w.size;
#pragma unroll
    for (int d = 0; d < many; ++d) {
      const int tap = r - d * Window::kDown;
      if (tap < 0 || tap >= Window::kRows) continue;
      if (tap == 0) {
        best[d] = of_row;
#pragma unroll
        for (int c = 0; c < n; ++c) best[d].places[c] += begin;
      } else {
        best[d].Join(of_row, begin);
      }
    }
  }
#pragma unroll
  for (int d = 0; d < many; ++d) {
    const int32_t row = at.strip * many + d;
    if (row >= p.h.n_windows) return;
    const int32_t place = at.OffsetAt(row, at.column, p.h.n_windows, p.w.n_windows);
    WriteRounded(out + place, best[d].values);
    if (index != nullptr) WriteRounded(index + place, best[d].places);
  }
}

// Processes `many` vertically adjacent windows. A row that several windows share is summed once.
// Padding counts as 0, but the nearest element is read, since a branch would serialize reads.
template <typename T, bool is_single, int n, typename Window, int many>
__global__ void __launch_bounds__(kThreads) pool_average_small(T* out, const T* x, Strips p) {
  using Value = Compute<T>;
  const int64_t number = GlobalIndex();
  if (number >= p.n_threads) return;
  const Strip<is_single> at = StripAt<is_single, n>(number, p);
  const int32_t left = at.column * Window::kAcross - p.w.before;
  const int32_t top = at.strip * many * Window::kDown - p.h.before;
  Value sums[many][n] = {};
#pragma unroll
  for (int r = 0; r < (many - 1) * Window::kDown + Window::kRows; ++r) {
    if (r % Window::kDown >= Window::kRows) continue;  // between windows
    Value of_row[n] = {};
#pragma unroll
    for (int k = 0; k < Window::kColumns; ++k) {
      const bool is_in = IsIn(top + r, p.h.size) && IsIn(left + k, p.w.size);
      const int32_t row = Nearest(top + r, p.h.size), column = Nearest(left + k, p.w.size);
      const auto stored = ReadVector<n>(x + at.OffsetAt(row, column, p.h.size, p.w.size));
#pragma unroll
      for (int c = 0; c < n; ++c) of_row[c] += is_in ? Load(stored.at[c]) : 0;
    }
#pragma unroll
    for (int d = 0; d < many; ++d) {
      const int tap = r - d * Window::kDown;
      if (tap < 0 || tap >= Window::kRows) continue;
#pragma unroll
      for (int c = 0; c < n; ++c) sums[d][c] += of_row[c];
    }
  }
  const int32_t in_columns = CountOfSliding(at.column, p.w);
#pragma unroll
  for (int d = 0; d < many; ++d) {
    const int32_t row = at.strip * many + d;
    if (row >= p.h.n_windows) return;
    const Count<Value> count(CountOfSliding(row, p.h) * in_columns);
#pragma unroll
    for (int c = 0; c < n; ++c) sums[d][c] = count.Divide(sums[d][c]);
    WriteRounded(out + at.OffsetAt(row, at.column, p.h.n_windows, p.w.n_windows), sums[d]);
  }
}
