// Teams of threads that each work on one line of an array at a time: its elements along one axis.
//
// A team says which line is its own (`line`), where that lies and which of its elements are its
// (`ForEach`), and reduces a value over its threads (`Reduce`, at which all threads of the block
// arrive). Lines may be cut into parts, for teams of their own: few long lines keep a GPU busy
// then. Made by opwright_cuda.kernels.lines.
#ifndef OPWRIGHT_CUDA_LINES_H_
#define OPWRIGHT_CUDA_LINES_H_

#include "reduce.h"

namespace opwright_cuda {

// The array is [outer, length, inner], lines go along its middle axis. `chunk` elements make one of
// the `parts`.
struct Lines {
  int64_t outer;
  int64_t length;
  int64_t inner;
  int64_t parts;
  int64_t chunk;
};

// What a team has of its line: the elements from `begin` to `end`; none where there is no line.
struct Share {
  int64_t line;   // of all lines, in the order in which they lie
  int64_t slot;   // of all parts, [outer, parts, inner]
  int64_t first;  // where element 0 of the line lies
  int64_t begin;
  int64_t end;
  bool is_there;

  OW_INLINE void Take(const Lines& lines, int64_t outer, int64_t part, int64_t column) {
    line = outer * lines.inner + column;
    slot = (outer * lines.parts + part) * lines.inner + column;
    first = outer * lines.length * lines.inner + column;
    is_there = outer < lines.outer && column < lines.inner;
    begin = is_there ? part * lines.chunk : 0;
    end = is_there ? min(begin + lines.chunk, lines.length) : 0;
  }
};

// `width` lanes of a warp, a power of 2; the elements of a line lie side by side, in one part.
struct LaneTeam : Share {
  static constexpr bool kIsRow = true;
  int thread;
  int size;

  OW_INLINE LaneTeam(const Lines& lines, int width) : thread(LaneIndex() % width), size(width) {
    Take(lines, GlobalIndex() / width, 0, 0);
  }
  OW_INLINE int64_t At(int64_t i) const { return first + i; }
  template <typename T, typename Function>
  OW_INLINE T Reduce(T value, Function function) const {
    for (int lanes = size / 2; lanes > 0; lanes /= 2) {
      value = function(value, ShuffleXor(value, lanes));
    }
    return value;
  }
  OW_INLINE bool IsFirst() const { return is_there && thread == 0; }
};

// A whole block; the elements of a line lie side by side.
struct BlockTeam : Share {
  static constexpr bool kIsRow = true;
  int thread;
  int size;

  OW_INLINE BlockTeam(const Lines& lines, int)
      : thread(static_cast<int>(threadIdx.x)), size(static_cast<int>(blockDim.x)) {
    const int64_t block = blockIdx.x;
    Take(lines, block / lines.parts, block % lines.parts, 0);
  }
  OW_INLINE int64_t At(int64_t i) const { return first + i; }
  template <typename T, typename Function>
  OW_INLINE T Reduce(T value, Function function) const {
    return BlockReduce(value, function);
  }
  OW_INLINE bool IsFirst() const { return is_there && thread == 0; }
};

constexpr int kTileThreads = 256;

// A column of threads; a block of 256 has `width` of them, a power of 2, for lines that lie side by
// side: neighbouring threads read neighbours.
struct TileTeam : Share {
  static constexpr bool kIsRow = false;
  int64_t stride;
  int thread;
  int size;
  int column;
  int columns;

  OW_INLINE TileTeam(const Lines& lines, int width)
      : stride(lines.inner),
        thread(static_cast<int>(threadIdx.x) / width),
        size(kTileThreads / width),
        column(static_cast<int>(threadIdx.x) % width),
        columns(width) {
    const int64_t tiles = (lines.inner + width - 1) / width;
    const int64_t rest = static_cast<int64_t>(blockIdx.x) / tiles;
    const int64_t tile = static_cast<int64_t>(blockIdx.x) % tiles;
    Take(lines, rest / lines.parts, rest % lines.parts, tile * width + column);
  }
  OW_INLINE int64_t At(int64_t i) const { return first + i * stride; }
  template <typename T, typename Function>
  OW_INLINE T Reduce(T value, Function function) const {
    OW_SHARED(T, values, kTileThreads);
    const int place = static_cast<int>(threadIdx.x);
    values[place] = value;
    for (int rows = size / 2; rows > 0; rows /= 2) {
      __syncthreads();
      if (thread < rows) values[place] = function(values[place], values[place + rows * columns]);
    }
    __syncthreads();
    value = values[column];
    __syncthreads();
    return value;
  }
  OW_INLINE bool IsFirst() const { return is_there && thread == 0; }
};

// ---- Teams that go over their line several times ------------------------------------------------

// `ForEach` calls a function with the number of each element of this thread and with a Kept that is
// its own. Where `kKeeps`, it still holds what an earlier call left there.
//
// In registers, for lines no longer than items * width. Of more than two items the width is 32, so
// that places are known to the compiler.
template <typename Kept, int items>
struct LaneLine : LaneTeam {
  static constexpr bool kKeeps = true;
  Kept kept[items];

  OW_INLINE LaneLine(const Lines& lines, int width) : LaneTeam(lines, width) {}
  template <typename Function>
  OW_INLINE void ForEach(Function function) {
    const int step = items > 2 ? kWarp : size;
    const int n = static_cast<int>(end);
#pragma unroll
    for (int k = 0; k < items; ++k) {
      const int i = thread + k * step;
      if (i < n) function(i, kept[k]);
    }
  }
};

// In dynamic shared memory, `length` of them.
template <typename Kept>
struct SharedLine : BlockTeam {
  static constexpr bool kKeeps = true;

  OW_INLINE SharedLine(const Lines& lines, int width) : BlockTeam(lines, width) {}
  template <typename Function>
  OW_INLINE void ForEach(Function function) {
    OW_DYNAMIC_SHARED(Kept, kept);
#pragma unroll 4
    for (int64_t i = begin + thread; i < end; i += size) function(i, kept[i]);
  }
};

// Nothing is kept.
template <typename Kept, typename Team>
struct StreamedLine : Team {
  static constexpr bool kKeeps = false;

  OW_INLINE StreamedLine(const Lines& lines, int width) : Team(lines, width) {}
  template <typename Function>
  OW_INLINE void ForEach(Function function) {
    Kept none;
#pragma unroll 4
    for (int64_t i = this->begin + this->thread; i < this->end; i += this->size) function(i, none);
  }
};

// Two numbers, reduced at once.
template <typename T>
struct Pair {
  T first;
  T second;
};
template <typename T>
struct PairSumOf {
  static OW_INLINE Pair<T> Identity() { return {T(0), T(0)}; }
  OW_INLINE Pair<T> operator()(Pair<T> x, Pair<T> y) const {
    return {x.first + y.first, x.second + y.second};
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_LINES_H_
