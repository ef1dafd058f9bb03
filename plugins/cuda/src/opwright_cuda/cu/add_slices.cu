// Deterministic sums of slices by index, as in the gradients of lookups.
//
// First, the slices of each index are listed: they are counted, space is allocated, and their
// numbers are written in any order. Then each block sums the slices of one index in order.
#include "kernel.h"
#include "listed.h"
#include "reduce.h"

using namespace opwright_cuda;

constexpr int kThreads = 256;
constexpr int kListed = 1024;  // slices of an index that are sorted together

// The range of valid indices. Negative indices count from the end; `skip` is ignored.
struct Range {
  int64_t least;
  int64_t count;
  int64_t skip;
};

// Returns the index counted from the front, or -1 if it is skipped or out of range. If `fault` is
// given, an index out of range is reported.
template <typename Index>
OW_INLINE int64_t PositionOf(Index given, const Range& range, Fault* fault, int32_t text) {
  auto position = static_cast<int64_t>(given);
  if (position < range.least || position >= range.count) {
    if (fault != nullptr) Report(fault, text, position);
    return -1;
  }
  if (position < 0) position += range.count;
  return position == range.skip ? -1 : position;
}

template <typename Index>
__global__ void count_slices(int32_t* counts, const Index* index, int64_t n, Range range,
                             Fault* fault, int32_t text) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const int64_t position = PositionOf(index[i], range, fault, text);
    if (position >= 0) atomicAdd(&counts[position], 1);
  }
}

// Allocates space in the list for every index: ends[p] becomes the position of its first slice, and
// `present` lists all indices with slices.
__global__ void give_room(const int32_t* counts, int32_t* ends, int32_t* present, Used* used,
                          int64_t count) {
  OW_SHARED(int32_t, in_block, 2);
  OW_SHARED(int32_t, before_block, 2);
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x; first < count;
       first += GridThreads()) {
    const int64_t position = first + threadIdx.x;
    if (threadIdx.x < 2) in_block[threadIdx.x] = 0;
    __syncthreads();
    const int32_t n = position < count ? counts[position] : 0;
    int32_t slices_before = 0;
    int32_t positions_before = 0;
    if (n > 0) {
      slices_before = atomicAdd(&in_block[0], n);
      positions_before = atomicAdd(&in_block[1], 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      before_block[0] = atomicAdd(&used->n_slices, in_block[0]);
      before_block[1] = atomicAdd(&used->n_positions, in_block[1]);
    }
    __syncthreads();
    if (n > 0) {
      ends[position] = before_block[0] + slices_before;
      present[before_block[1] + positions_before] = static_cast<int32_t>(position);
    }
    __syncthreads();  // before the block starts new sums
  }
}

// Lists the slices of each index; afterward, ends[p] is the end of the slices of index p.
template <typename Index>
__global__ void list_slices(int32_t* ends, int32_t* list, const Index* index, int64_t n,
                            Range range) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const int64_t position = PositionOf(index[i], range, nullptr, 0);
    if (position >= 0) list[atomicAdd(&ends[position], 1)] = static_cast<int32_t>(i);
  }
}

// Sorts `n` distinct numbers.
OW_INLINE void PutInOrder(int32_t* numbers, const int32_t* list, int n) {
  OW_SHARED(int32_t, given, kListed);
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) given[i] = list[i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) {
    int rank = 0;
    for (int k = 0; k < n; ++k) rank += given[k] < given[i] ? 1 : 0;
    numbers[rank] = given[i];
  }
  __syncthreads();
}

// Finds the occurrences of an index among the next kListed indices; returns how many there are.
template <typename Index>
OW_INLINE int FindSlices(int32_t* numbers, const Index* index, int64_t first, int64_t n,
                         int64_t position, const Range& range, Fault* fault, int32_t text) {
  OW_SHARED(int32_t, in_warp, kMaxWarps);
  int found = 0;
  for (int64_t begin = first; begin < first + kListed && begin < n; begin += kThreads) {
    const int64_t i = begin + threadIdx.x;
    const bool is_one = i < n && PositionOf(index[i], range, fault, text) == position;
    const unsigned ones = __ballot_sync(0xffffffffu, is_one);
    if (LaneIndex() == 0) in_warp[WarpIndex()] = __popc(ones);
    __syncthreads();
    int before = found;
    for (int warp = 0; warp < kThreads / kWarp; ++warp) {
      if (warp < WarpIndex()) before += in_warp[warp];
      found += in_warp[warp];
    }
    if (is_one) {
      numbers[before + __popc(ones & ((1u << LaneIndex()) - 1u))] = static_cast<int32_t>(i);
    }
    __syncthreads();
  }
  return found;
}

// Sums the slices of each index, from `slices` [outer, n, row] into out [outer, count, row].
// blockIdx.x selects the index, and blockIdx.y selects columns: elements of a slice and of the
// outer axis. `columns` threads process adjacent columns. The other threads of the block process
// different slices of the same columns, and their sums are added in order. A compact `out` has only
// the slices of the listed indices, in list order.
template <typename T, typename Index, typename Sum, typename Out>
__global__ void add_slices(Out* out, const T* slices, const Index* index, int64_t n, int64_t outer,
                           int64_t row, int32_t columns, Range range, Listed listed,
                           bool is_compact, Fault* fault, int32_t text) {
  OW_SHARED(int32_t, numbers, kListed);
  OW_SHARED(Sum, sums, kThreads);
  const bool is_listed = listed.present != nullptr;
  if (is_listed && blockIdx.x >= listed.used->n_positions) return;  // true for the whole block
  const int64_t position = is_listed ? listed.present[blockIdx.x] : blockIdx.x;
  const int32_t n_listed = is_listed ? listed.counts[position] : kListed + 1;
  const bool is_short = n_listed <= kListed;
  if (is_short) {
    PutInOrder(numbers, listed.list + (listed.ends[position] - n_listed), n_listed);
  }
  const int n_groups = kThreads / columns;
  const int group = static_cast<int>(threadIdx.x) / columns;
  const int64_t n_columns = outer * row;
  const int64_t step = static_cast<int64_t>(gridDim.y) * columns;
  for (int64_t first = static_cast<int64_t>(blockIdx.y) * columns; first < n_columns;
       first += step) {
    const int64_t column = first + static_cast<int>(threadIdx.x) % columns;
    const int64_t line = outer == 1 ? 0 : column / row;
    const T* of_column = slices + (line * n * row + (column - line * row));
    Sum sum = 0;
    for (int64_t begin = 0; begin < (is_short ? 1 : n); begin += kListed) {
      // Only one block reports faults, so each invalid index is reported once.
      Fault* reported = blockIdx.x == 0 && first == 0 ? fault : nullptr;
      const int found = is_short ? n_listed
                                 : FindSlices(numbers, index, begin, n, position, range,
                                              is_listed ? nullptr : reported, text);
      if (column < n_columns) {
        const int end = static_cast<int>(static_cast<int64_t>(found) * (group + 1) / n_groups);
#pragma unroll 4
        for (int i = static_cast<int>(static_cast<int64_t>(found) * group / n_groups); i < end;
             ++i) {
          sum += static_cast<Sum>(Load(of_column[static_cast<int64_t>(numbers[i]) * row]));
        }
      }
      __syncthreads();  // before the next occurrences are found
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (group == 0 && column < n_columns) {
      for (int other = 1; other < n_groups; ++other) sum += sums[threadIdx.x + other * columns];
      const int64_t slice = is_compact ? blockIdx.x : line * range.count + position;
      out[slice * row + (column - line * row)] = Store<Out>(sum);
    }
    __syncthreads();  // before the next sums are stored
  }
}
