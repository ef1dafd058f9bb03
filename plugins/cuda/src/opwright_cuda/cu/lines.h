// Teams of threads. Each team works on one line of an array, that is, the elements along one axis.
//
// A team has a line (`line`), maps positions to offsets (`At`), iterates over elements
// (`EachBlock`), and reduces a value over its threads (`Reduce`, a barrier for all threads of the
// block). Lines may be split into parts with separate teams so that even a few long lines occupy
// the whole GPU. opwright_cuda.kernels.lines chooses the teams.
#ifndef OPWRIGHT_CUDA_LINES_H_
#define OPWRIGHT_CUDA_LINES_H_

#include "reduce.h"

namespace opwright_cuda {

// The shape [outer, length, inner] of an array, whose lines are along the middle axis. Each line is
// split into `parts` of `chunk` elements.
struct Lines {
  int64_t outer;
  int64_t length;
  int64_t inner;
  int64_t parts;
  int64_t chunk;
};

// The part of a line, [begin, end), that a team processes; it is empty if the team has no line.
struct Share {
  int64_t line;   // index of the line in memory order
  int64_t slot;   // index of the part in [outer, parts, inner]
  int64_t first;  // offset of the line's element 0
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

// A team of `width` lanes of a warp, a power of 2, for contiguous lines that are not split.
struct LaneTeam : Share {
  int thread;
  int size;

  // Only 32-bit indices within a block are divided, since 64-bit division is slow on GPUs.
  OW_INLINE LaneTeam(const Lines& lines, int width)
      : thread(static_cast<int>(threadIdx.x) & (width - 1)), size(width) {
    const auto lanes = static_cast<uint32_t>(width);
    Take(lines, static_cast<int64_t>(blockIdx.x) * (blockDim.x / lanes) + threadIdx.x / lanes, 0,
         0);
  }
  OW_INLINE int64_t At(int64_t i) const { return first + i; }
  // With many items per thread, the team is a complete warp, so the step is a constant.
  template <int items>
  OW_INLINE int StepOf() const {
    return items > 8 ? kWarp : size;
  }
  template <typename T, typename Function>
  OW_INLINE T Reduce(T value, Function function) const {
    for (int lanes = size / 2; lanes > 0; lanes /= 2) {
      value = function(value, ShuffleXor(value, lanes));
    }
    return value;
  }
  // Returns whether `is_true` holds for any line whose team shares Reduce barriers with this team.
  OW_INLINE bool IsAny(bool is_true) const { return __any_sync(0xffffffffu, is_true); }
  OW_INLINE bool IsFirst() const { return is_there && thread == 0; }
};

// A team of all threads of a block, for contiguous lines.
struct BlockTeam : Share {
  int thread;
  int size;

  OW_INLINE BlockTeam(const Lines& lines, int)
      : thread(static_cast<int>(threadIdx.x)), size(static_cast<int>(blockDim.x)) {
    const auto parts = static_cast<uint32_t>(lines.parts);
    Take(lines, blockIdx.x / parts, blockIdx.x % parts, 0);
  }
  OW_INLINE int64_t At(int64_t i) const { return first + i; }
  template <int>
  OW_INLINE int StepOf() const {
    return size;
  }
  template <typename T, typename Function>
  OW_INLINE T Reduce(T value, Function function) const {
    return BlockReduce(value, function);
  }
  OW_INLINE bool IsAny(bool is_true) const { return is_true; }
  OW_INLINE bool IsFirst() const { return is_there && thread == 0; }
};

constexpr int kTileThreads = 256;
constexpr int kMostLineThreads = 512;  // per block

// A team that is one column of the threads of a block. A block of 256 threads has `width` columns,
// a power of 2. Columns process adjacent lines, so adjacent threads read adjacent elements.
struct TileTeam : Share {
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
    // The tile and part counts do not exceed the number of blocks, so 32 bits suffice.
    const auto tiles = static_cast<uint32_t>((lines.inner + width - 1) / width);
    const auto parts = static_cast<uint32_t>(lines.parts);
    const uint32_t rest = blockIdx.x / tiles;
    const int64_t tile = blockIdx.x % tiles;
    Take(lines, rest / parts, rest % parts, tile * width + column);
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
  OW_INLINE bool IsAny(bool is_true) const {
    return BlockReduce(is_true ? 1 : 0, MaxOf<int>()) != 0;
  }
  OW_INLINE bool IsFirst() const { return is_there && thread == 0; }
};

// ---- Teams that iterate over their line by vectors ------------------------------------------

// `EachBlock` calls function(Width<n>, index of the first element, kept values) for each vector of
// n adjacent elements of this thread. If `kKeeps`, the kept values persist between calls.
template <int n>
struct Width {
  static constexpr int value = n;
};

// Keeps values in registers, for lines of at most items * size elements whose length is a multiple
// of `vector`.
template <typename Team, typename KeptOf, int items, int vector>
struct KeptLine : Team {
  using Kept = KeptOf;
  static constexpr bool kKeeps = true;
  Kept kept[items];

  OW_INLINE KeptLine(const Lines& lines, int width) : Team(lines, width) {}
  template <typename Function>
  OW_INLINE void EachBlock(Function function) {
    const int step = this->template StepOf<items>();
    const int n = static_cast<int>(this->end);
#pragma unroll
    for (int k = 0; k < items / vector; ++k) {
      const int i = (this->thread + k * step) * vector;
      if (i < n) function(Width<vector>(), i, kept + k * vector);
    }
  }
};

// Does not keep values and supports lines of any length. An unaligned line begins with single
// elements. A thread reads `together` vectors at a time.
template <typename Team, typename KeptOf, int vector, int together = 4>
struct StreamedLine : Team {
  using Kept = KeptOf;
  static constexpr bool kKeeps = false;

  OW_INLINE StreamedLine(const Lines& lines, int width) : Team(lines, width) {}
  template <typename Function>
  OW_INLINE void EachBlock(Function function) {
    const int64_t misplaced = vector == 1 ? 0 : (vector - this->At(this->begin) % vector) % vector;
    const int64_t first = min(this->begin + misplaced, this->end);
    const int64_t last = this->end - (this->end - first) % vector;
    if (vector > 1) EachOne(this->begin, first, function);
    Kept none[vector];
    const int64_t step = this->size * vector;
    int64_t i = first + this->thread * vector;
    // The loads are issued together, because no branches separate them.
#pragma unroll 1
    for (; i + (together - 1) * step < last; i += together * step) {
#pragma unroll
      for (int k = 0; k < together; ++k) function(Width<vector>(), i + k * step, none);
    }
#pragma unroll 1
    for (; i < last; i += step) function(Width<vector>(), i, none);
    if (vector > 1) EachOne(last, this->end, function);
  }

 private:
  template <typename Function>
  OW_INLINE void EachOne(int64_t from, int64_t to, Function function) const {
    Kept none;
#pragma unroll 1
    for (int64_t i = from + this->thread; i < to; i += this->size) function(Width<1>(), i, &none);
  }
};

// An array of the length of a line, shared by all lines. If the array is null, every element is
// `otherwise`.
template <typename T>
struct ForAllLines {
  const T* values;
  Compute<T> otherwise;
};
// A source that rereads values if the line does not keep them.
template <typename T>
struct Again {
  const T* values;
};

// ReadBlock returns `n` adjacent elements of a line, starting at index `i`.
template <int n, typename Line, typename T>
OW_INLINE Vector<T, n> ReadBlock(const Line& line, const T* x, int64_t i) {
  return *reinterpret_cast<const Vector<T, n>*>(x + line.At(i));
}
template <int n, typename Line, typename T>
OW_INLINE Vector<T, n> ReadBlock(const Line& line, Again<T> x, int64_t i) {
  if constexpr (Line::kKeeps) {
    return {};
  } else {
    return ReadBlock<n>(line, x.values, i);
  }
}
template <int n, typename Line, typename T>
OW_INLINE Vector<Compute<T>, n> ReadBlock(const Line&, ForAllLines<T> x, int64_t i) {
  Vector<Compute<T>, n> block;
  if (x.values != nullptr && i % n == 0) {
    const auto stored = *reinterpret_cast<const Vector<T, n>*>(x.values + i);
#pragma unroll
    for (int k = 0; k < n; ++k) block.at[k] = Load(stored.at[k]);
  } else {
#pragma unroll
    for (int k = 0; k < n; ++k) {
      block.at[k] = x.values == nullptr ? x.otherwise : Load(x.values[i + k]);
    }
  }
  return block;
}

// Calls function(index, kept, source values...) for each element of this thread.
template <typename Line, typename Function, typename... Source>
OW_INLINE void ForEach(Line& line, Function function, Source... sources) {
  line.EachBlock([&](auto width, int64_t i, auto* kept) {
    constexpr int kWidth = decltype(width)::value;
    const auto apply = [&](const auto&... blocks) {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) function(i + k, kept[k], Load(blocks.at[k])...);
    };
    apply(ReadBlock<kWidth>(line, sources, i)...);
  });
}

template <int n, typename Line, typename T>
OW_INLINE void WriteBlock(const Line& line, T* out, int64_t i, const Vector<T, n>& block) {
  if (out != nullptr) StoreWhole(reinterpret_cast<Vector<T, n>*>(out + line.At(i)), block);
}

// Two values that are reduced or written together.
template <typename T>
struct Pair {
  T first;
  T second;
};

// Writes the pair returned by function(index, kept, values...) to two arrays with the layout of the
// lines. The arrays may be null or share memory with the sources.
template <typename Line, typename T, typename Function, typename... Source>
OW_INLINE void TransformBoth(Line& line, T* first, T* second, Function function,
                             Source... sources) {
  line.EachBlock([&](auto width, int64_t i, auto* kept) {
    constexpr int kWidth = decltype(width)::value;
    const auto apply = [&](const auto&... blocks) {
      Vector<T, kWidth> firsts;
      Vector<T, kWidth> seconds;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        const Pair<Compute<T>> made = function(i + k, kept[k], Load(blocks.at[k])...);
        firsts.at[k] = Store<T>(made.first);
        seconds.at[k] = Store<T>(made.second);
      }
      WriteBlock(line, first, i, firsts);
      WriteBlock(line, second, i, seconds);
    };
    apply(ReadBlock<kWidth>(line, sources, i)...);
  });
}

// Writes the value returned by function(index, kept, values...) to one array; see TransformBoth.
template <typename Line, typename T, typename Function, typename... Source>
OW_INLINE void Transform(Line& line, T* out, Function function, Source... sources) {
  line.EachBlock([&](auto width, int64_t i, auto* kept) {
    constexpr int kWidth = decltype(width)::value;
    const auto apply = [&](const auto&... blocks) {
      Vector<T, kWidth> made;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        made.at[k] = Store<T>(function(i + k, kept[k], Load(blocks.at[k])...));
      }
      WriteBlock(line, out, i, made);
    };
    apply(ReadBlock<kWidth>(line, sources, i)...);
  });
}

template <typename T>
struct PairSumOf {
  static OW_INLINE Pair<T> Identity() { return {T(0), T(0)}; }
  OW_INLINE Pair<T> operator()(Pair<T> x, Pair<T> y) const {
    return {x.first + y.first, x.second + y.second};
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_LINES_H_
