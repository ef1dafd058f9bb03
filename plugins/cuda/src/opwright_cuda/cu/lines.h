// Teams of threads that each work on one line of an array at a time: its elements along one axis.
//
// A team says which line is its own (`line`), where that lies and which of its elements are its
// (`EachBlock`), and reduces a value over its threads (`Reduce`, at which all threads of the block
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
  int thread;
  int size;

  // Numbers within a block, for the GPU takes long to divide those of 64 bits.
  OW_INLINE LaneTeam(const Lines& lines, int width)
      : thread(static_cast<int>(threadIdx.x) & (width - 1)), size(width) {
    const auto lanes = static_cast<uint32_t>(width);
    Take(lines, static_cast<int64_t>(blockIdx.x) * (blockDim.x / lanes) + threadIdx.x / lanes, 0,
         0);
  }
  OW_INLINE int64_t At(int64_t i) const { return first + i; }
  // Where a thread has many items, the whole warp works: the compiler knows all places.
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
  // Whether it is true of a line whose team arrives at every Reduce with this one.
  OW_INLINE bool IsAny(bool is_true) const { return __any_sync(0xffffffffu, is_true); }
  OW_INLINE bool IsFirst() const { return is_there && thread == 0; }
};

// A whole block; the elements of a line lie side by side.
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
constexpr int kMostLineThreads = 512;  // in a block

// A column of threads; a block of 256 has `width` of them, a power of 2, for lines that lie side by
// side: neighbouring threads read neighbours.
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
    // No more tiles and parts than blocks, so 32 bits hold them.
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

// ---- Teams that go over their line, a vector at a time ------------------------------------------

// `EachBlock` calls a function for all elements of this thread, so many neighbours at once:
// function(Width<n>, number of the first one, what is kept of them). Where `kKeeps`, that still
// holds what an earlier call has left there.
template <int n>
struct Width {
  static constexpr int value = n;
};

// In registers, for lines no longer than items * size. A multiple of `vector` elements makes one.
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

// Nothing is kept. Lines of any length: one that does not begin where a vector does begins with
// single elements.
template <typename Team, typename KeptOf, int vector>
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
    // Without a test between them they are read together.
#pragma unroll 1
    for (; i + 3 * step < last; i += 4 * step) {
#pragma unroll
      for (int k = 0; k < 4; ++k) function(Width<vector>(), i + k * step, none);
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

// An array that is as long as a line and belongs to all of them; null where all are `otherwise`.
template <typename T>
struct ForAllLines {
  const T* values;
  Compute<T> otherwise;
};
// What is read again where the line does not keep it.
template <typename T>
struct Again {
  const T* values;
};

// ReadBlock: `n` neighbours of what is read along a line, from number `i` on.
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

// Calls function(number, kept, values of the sources...) for each element of this thread.
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

// Two numbers, reduced or written at once.
template <typename T>
struct Pair {
  T first;
  T second;
};

// Writes what function(number, kept, values...) returns, a pair, to two arrays that lie as the
// lines do. They may be null, or lie on what is read.
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

// The same for one array.
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
