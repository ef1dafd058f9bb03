// The gradients of pooling with small windows. A thread computes the pixels of a strip from the
// windows that cover them.
#include "kernel.h"
#include "pooling_small.h"

using namespace opwright_cuda;

// Gathers the pixels of `many` vertically adjacent cells. A cell spans from the actual or virtual
// start of one window to the start of the next window, so the same windows may cover all of its
// pixels. For each row of windows that may cover a cell, gather.Read(k, offset, row, column,
// covers) reads the windows that may cover the column of the thread. `covers` is true if the row
// exists and the window covers the column; otherwise, a nearby window is read, since a branch would
// serialize reads. Then gather.Add(q) is called for each pixel that the row covers.
template <typename Window, int many, bool is_single, typename Gather>
OW_INLINE void OverWindows(const Strip<is_single>& at, const Strips& p, Gather& gather) {
  const int32_t padded = at.column + p.w.before;
  const int32_t nearest = min(padded / Window::kAcross, p.w.n_windows - 1) - Window::kLeft;
  const int32_t left = max(nearest, 0);
  const int32_t first = at.OffsetAt(0, left, p.h.n_windows, p.w.n_windows);
  const int32_t pitch = p.w.n_windows * at.Channels();
  const int32_t cell = p.first_cell + at.strip * many;
#pragma unroll
  for (int t = 0; t < many + Window::kAbove; ++t) {
    const int32_t row = cell - Window::kAbove + t;
    const int32_t offset = first + Nearest(row, p.h.n_windows) * pitch;
#pragma unroll
    for (int k = 0; k <= Window::kLeft; ++k) {
      const bool covers =
          IsIn(row, p.h.n_windows) && IsIn(padded - (left + k) * Window::kAcross, Window::kColumns);
      gather.Read(k, offset + k * at.Channels(), row, left + k, covers);
    }
#pragma unroll
    for (int q = 0; q < many * Window::kDown; ++q) {
      const int in_window = q + (Window::kAbove - t) * Window::kDown;
      if (in_window >= 0 && in_window < Window::kRows) gather.Add(q);
    }
  }
}

// Writes the sums of the pixels of `many` cells, starting at row `top`.
template <bool is_single, typename T, int n, int n_pixels, typename Value>
OW_INLINE void WritePixels(T* x_grad, const Strip<is_single>& at, const Strips& p, int32_t top,
                           const Value (&sums)[n_pixels][n]) {
  T* place = x_grad + at.OffsetAt(top, at.column, p.h.size, p.w.size);
  const int32_t pitch = p.w.size * at.Channels();
#pragma unroll
  for (int q = 0; q < n_pixels; ++q, place += pitch) {
    if (IsIn(top + q, p.h.size)) WriteRounded(place, sums[q]);
  }
}

template <typename T, int n, int in_row, int n_pixels>
struct MaxGather {
  const int32_t* index;
  const T* out_grad;
  int32_t place;  // index of the first pixel in its image
  int32_t width;
  Compute<T> sums[n_pixels][n] = {};
  uint32_t greatest = 0;  // maximum of all indices as unsigned, so negative ones are huge
  Vector<int32_t, n> places[in_row];
  Vector<T, n> grads[in_row];
  bool is_there[in_row];

  OW_INLINE void Read(int k, int32_t offset, int32_t, int32_t, bool covers) {
    places[k] = ReadVector<n>(index + offset);
    grads[k] = ReadVector<n>(out_grad + offset);
    is_there[k] = covers;
#pragma unroll
    for (int c = 0; c < n; ++c) {
      greatest = max(greatest, static_cast<uint32_t>(places[k].at[c]));
    }
  }
  OW_INLINE void Add(int q) {
    const int32_t wanted = place + q * width;
#pragma unroll
    for (int k = 0; k < in_row; ++k) {
#pragma unroll
      for (int c = 0; c < n; ++c) {
        if (is_there[k] && places[k].at[c] == wanted) sums[q][c] += Load(grads[k].at[c]);
      }
    }
  }
};

template <typename T, int n, int in_row, int n_pixels>
struct AverageGather {
  const T* out_grad;
  const Strips& p;
  Compute<T> sums[n_pixels][n] = {};
  Compute<T> shares[in_row][n];

  OW_INLINE void Read(int k, int32_t offset, int32_t row, int32_t column, bool covers) {
    const auto stored = ReadVector<n>(out_grad + offset);
    const Count<Compute<T>> count(CountOfSliding(row, p.h) * CountOfSliding(column, p.w));
#pragma unroll
    for (int c = 0; c < n; ++c) shares[k][c] = covers ? count.Divide(Load(stored.at[c])) : 0;
  }
  OW_INLINE void Add(int q) {
#pragma unroll
    for (int k = 0; k < in_row; ++k) {
#pragma unroll
      for (int c = 0; c < n; ++c) sums[q][c] += shares[k][c];
    }
  }
};

// An index outside the image is reported, and its window does not contribute.
template <typename T, bool is_single, int n, typename Window, int many>
__global__ void __launch_bounds__(kThreads)
    pool_max_grad_small(T* x_grad, const int32_t* index, const T* out_grad, Strips p, Fault* fault,
                        int32_t text) {
  const int64_t number = GlobalIndex();
  if (number >= p.n_threads) return;
  const Strip<is_single> at = StripAt<is_single, n>(number, p);
  const int32_t top = (p.first_cell + at.strip * many) * Window::kDown - p.h.before;
  MaxGather<T, n, Window::kLeft + 1, many * Window::kDown> gather = {
      index, out_grad, top * p.w.size + at.column, p.w.size};
  OverWindows<Window, many>(at, p, gather);
  WritePixels(x_grad, at, p, top, gather.sums);
  if (gather.greatest >= static_cast<uint32_t>(p.h.size) * static_cast<uint32_t>(p.w.size)) {
    Report(fault, text, static_cast<int32_t>(gather.greatest));
  }
}

template <typename T, bool is_single, int n, typename Window, int many>
__global__ void __launch_bounds__(kThreads)
    pool_average_grad_small(T* x_grad, const T* out_grad, Strips p) {
  const int64_t number = GlobalIndex();
  if (number >= p.n_threads) return;
  const Strip<is_single> at = StripAt<is_single, n>(number, p);
  const int32_t top = (p.first_cell + at.strip * many) * Window::kDown - p.h.before;
  AverageGather<T, n, Window::kLeft + 1, many * Window::kDown> gather = {out_grad, p};
  OverWindows<Window, many>(at, p, gather);
  WritePixels(x_grad, at, p, top, gather.sums);
}
