// top_k, which returns the best elements along an axis in order, and its gradient.
#include "kernel.h"
#include "ranking.h"
#include "reduce.h"

using namespace opwright_cuda;

constexpr int kSorted = 2048;  // elements that fit into shared memory

// Lines of `length` elements, `inner` apart. The best k elements of each line are selected.
struct Lines {
  int64_t count;
  int64_t length;
  int64_t inner;
  int64_t k;
  bool largest;
};

template <typename T>
OW_INLINE void Write(const T* x, T* out, int64_t* places, const Ranked<Rank<T>>* items,
                     const Lines& lines, int64_t line) {
  const int64_t outer = line / lines.inner;
  const int64_t column = line - outer * lines.inner;
  for (int64_t i = threadIdx.x; i < lines.k; i += blockDim.x) {
    const int64_t place = items[i].place;
    const int64_t at = (outer * lines.k + i) * lines.inner + column;
    out[at] = x[(outer * lines.length + place) * lines.inner + column];
    places[at] = place;
  }
}

// Sorts complete lines. `n_items` is a power of two and at least the line length.
template <typename T>
__global__ void top_k_of_short(const T* x, T* out, int64_t* places, Lines lines, int64_t n_items) {
  OW_DYNAMIC_SHARED(Ranked<Rank<T>>, items);
  for (int64_t line = blockIdx.x; line < lines.count; line += gridDim.x) {
    const int64_t outer = line / lines.inner;
    const T* elements = x + (outer * lines.length * lines.inner + (line - outer * lines.inner));
    for (int64_t i = threadIdx.x; i < n_items; i += blockDim.x) {
      items[i] = Last<Rank<T>>();
      if (i < lines.length) {
        items[i] = {RankOf(elements[i * lines.inner], lines.largest), static_cast<uint32_t>(i)};
      }
    }
    __syncthreads();
    Sort(items, n_items);
    Write(x, out, places, items, lines, line);
    __syncthreads();  // before the next line
  }
}

// In long lines, the rank of the k-th best element is computed first.

template <typename R>
struct Limit {
  R rank;           // rank of the k-th best element
  int64_t n_equal;  // number of selected elements with this rank, which come first
};

// Radix select, starting with the highest digit. Elements that match all digits so far are counted
// by their next digit.
template <typename T>
OW_INLINE Limit<Rank<T>> FindLimit(const T* elements, const Lines& lines) {
  using R = Rank<T>;
  constexpr int kDigits = 256;
  OW_SHARED(int32_t, counts, kDigits);
  OW_SHARED(Limit<R>, limit, 1);
  R known = 0;
  if (threadIdx.x == 0) *limit = {R(0), lines.k};
  for (int shift = static_cast<int>(sizeof(R)) * 8 - 8; shift >= 0; shift -= 8) {
    for (int i = static_cast<int>(threadIdx.x); i < kDigits; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    const R so_far = limit->rank;
    for (int64_t i = threadIdx.x; i < lines.length; i += blockDim.x) {
      const R rank = RankOf(elements[i * lines.inner], lines.largest);
      if ((rank & known) == so_far) atomicAdd(&counts[(rank >> shift) & 255], 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 0;
      while (counts[digit] < limit->n_equal) limit->n_equal -= counts[digit++];
      limit->rank |= static_cast<R>(digit) << shift;
    }
    known |= R(255) << shift;
    __syncthreads();
  }
  return *limit;
}

// Collects the best k elements in any order, padded with a key that sorts after every element.
template <typename T>
OW_INLINE void Select(Ranked<Rank<T>>* items, int64_t n_items, const T* elements,
                      const Lines& lines) {
  OW_SHARED(int32_t, n_better, 1);
  OW_SHARED(int32_t, in_warp, kMaxWarps);
  const Limit<Rank<T>> limit = FindLimit(elements, lines);
  const int64_t n_others = lines.k - limit.n_equal;
  if (threadIdx.x == 0) *n_better = 0;
  for (int64_t i = lines.k + threadIdx.x; i < n_items; i += blockDim.x) {
    items[i] = Last<Rank<T>>();
  }
  __syncthreads();
  const int n_warps = static_cast<int>(blockDim.x) / kWarp;
  int64_t n_equal = 0;  // equal in all threads
  for (int64_t first = 0; first < lines.length; first += blockDim.x) {
    const int64_t i = first + threadIdx.x;
    const bool is_there = i < lines.length;
    const Rank<T> rank = is_there ? RankOf(elements[i * lines.inner], lines.largest) : ~Rank<T>(0);
    const Ranked<Rank<T>> item = {rank, static_cast<uint32_t>(i)};
    if (is_there && rank < limit.rank) items[atomicAdd(n_better, 1)] = item;
    const bool is_equal = is_there && rank == limit.rank;
    const unsigned equal = __ballot_sync(0xffffffffu, is_equal);
    if (LaneIndex() == 0) in_warp[WarpIndex()] = __popc(equal);
    __syncthreads();
    int64_t before = n_equal + __popc(equal & ((1u << LaneIndex()) - 1u));
    for (int warp = 0; warp < n_warps; ++warp) {
      if (warp < WarpIndex()) before += in_warp[warp];
      n_equal += in_warp[warp];
    }
    if (is_equal && before < limit.n_equal) items[n_others + before] = item;
    __syncthreads();
  }
}

// The best elements are stored in shared memory if `n_items` fit into it, otherwise in the
// workspace, `n_items` per block. `n_items` is a power of two and at least k.
template <typename T>
__global__ void top_k_of_long(const T* x, T* out, int64_t* places, Lines lines, int64_t n_items,
                              Ranked<Rank<T>>* workspace) {
  OW_DYNAMIC_SHARED(Ranked<Rank<T>>, shared);
  Ranked<Rank<T>>* items = n_items <= kSorted ? shared : workspace + blockIdx.x * n_items;
  for (int64_t line = blockIdx.x; line < lines.count; line += gridDim.x) {
    const int64_t outer = line / lines.inner;
    const T* elements = x + (outer * lines.length * lines.inner + (line - outer * lines.inner));
    Select(items, n_items, elements, lines);
    Sort(items, n_items);
    Write(x, out, places, items, lines, line);
    __syncthreads();  // before the next line
  }
}

// x_grad is 0 except for the selected elements; no element may be selected twice. An index outside
// the line is reported. T has the size of the dtype.
template <typename T>
__global__ void top_k_grad(T* x_grad, const int64_t* places, const T* out_grad, int64_t n,
                           int64_t k, int64_t length, int64_t inner, Fault* fault, int32_t text) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const int64_t outer = i / (k * inner);
    const int64_t place = places[i];
    if (place < 0 || place >= length) {
      Report(fault, text, place);
      continue;
    }
    x_grad[(outer * length + place) * inner + i % inner] = out_grad[i];
  }
}
