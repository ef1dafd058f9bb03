#include "reduction/reducer.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/clones.h"
#include "common/parallel.h"

namespace opwright_cpu {
namespace {

// Elements of one piece of a line that threads share. Fixed, so that results do not depend on
// how many they are.
constexpr int64_t kChunk = 65536;
// Results from which threads need not share lines.
constexpr int64_t kManyLines = 64;
constexpr int64_t kManyColumns = 2048;
// Width of the strip of columns that is kept in the first cache, and the rows that are added up
// there before they join the rest: sums of long columns lose fewer digits.
constexpr int64_t kStrip = 2048;
constexpr int64_t kStripRows = 256;
// Rows narrower than this are joined to longer ones, which fill vectors.
constexpr int64_t kNarrow = 64;

// out = rows reduced to one; eight at a time, so that `out` is read and written less.
template <typename T, typename Rule>
OPWRIGHT_CPU_INLINE void FoldRows(const T* x, int64_t n_rows, int64_t stride, int64_t width,
                                  T* __restrict__ out) {
  std::memcpy(out, x, static_cast<size_t>(width) * sizeof(T));
  int64_t row = 1;
  for (; row + 8 <= n_rows; row += 8) {
    const T* p = x + row * stride;
    for (int64_t c = 0; c < width; ++c) {
      const T* q = p + c;
      const T first = Rule::Combine(Rule::Combine(q[0], q[stride]),
                                    Rule::Combine(q[2 * stride], q[3 * stride]));
      const T second = Rule::Combine(Rule::Combine(q[4 * stride], q[5 * stride]),
                                     Rule::Combine(q[6 * stride], q[7 * stride]));
      out[c] = Rule::Combine(out[c], Rule::Combine(first, second));
    }
  }
  for (; row < n_rows; ++row) {
    const T* p = x + row * stride;
    for (int64_t c = 0; c < width; ++c) out[c] = Rule::Combine(out[c], p[c]);
  }
}

template <typename T, typename Rule>
OPWRIGHT_CPU_INLINE void FoldStrip(const T* x, int64_t n_rows, int64_t stride, int64_t width,
                                   T* out) {
  T block[kStrip];
  for (int64_t row = 0; row < n_rows; row += kStripRows) {
    FoldRows<T, Rule>(x + row * stride, std::min(n_rows - row, kStripRows), stride, width,
                      row == 0 ? out : block);
    if (row == 0) continue;
    for (int64_t c = 0; c < width; ++c) out[c] = Rule::Combine(out[c], block[c]);
  }
}

// The results [begin, end) of all outer * inner ones. Narrow rows are joined to wider ones.
template <typename T, typename Rule>
OPWRIGHT_CPU_INLINE void Columns(const T* x, int64_t length, int64_t inner, int64_t begin,
                                 int64_t end, T* out) {
  T wide[4 * kNarrow];
  while (begin < end) {
    const int64_t outer = begin / inner;
    const int64_t column = begin % inner;
    const int64_t width = std::min(std::min(inner - column, end - begin), kStrip);
    const T* from = x + outer * length * inner + column;
    const bool join = width == inner && inner <= kNarrow && length * inner >= 4 * kNarrow;
    const int64_t joined = join ? 4 * kNarrow / width : 1;
    const int64_t whole = length / joined;
    FoldStrip<T, Rule>(from, whole, joined * inner, joined * width, join ? wide : out + begin);
    if (join) {
      for (int64_t c = 0; c < width; ++c) {
        T total = wide[c];
        for (int64_t i = 1; i < joined; ++i) total = Rule::Combine(total, wide[i * width + c]);
        for (int64_t i = whole * joined; i < length; ++i) {
          total = Rule::Combine(total, from[i * width + c]);
        }
        out[begin + c] = total;
      }
    }
    begin += width;
  }
}

template <typename T, typename Rule>
OPWRIGHT_CPU_CLONES void ReduceRowsCloned(const T* x, int64_t n_rows, int64_t length, T* out) {
  for (int64_t i = 0; i < n_rows; ++i) out[i] = Rule::Row(x + i * length, length);
}

template <typename T, typename Rule>
OPWRIGHT_CPU_CLONES void ReduceColumnsCloned(const T* x, int64_t length, int64_t inner,
                                             int64_t begin, int64_t end, T* out) {
  Columns<T, Rule>(x, length, inner, begin, end, out);
}

// Whole numbers are compiled once only: there are eight types of them.
template <typename T, typename Rule>
void ReduceRows(const T* x, int64_t n_rows, int64_t length, T* out) {
  if constexpr (std::is_floating_point_v<T>) {
    ReduceRowsCloned<T, Rule>(x, n_rows, length, out);
  } else {
    for (int64_t i = 0; i < n_rows; ++i) out[i] = Rule::Row(x + i * length, length);
  }
}

template <typename T, typename Rule>
void ReduceColumns(const T* x, int64_t length, int64_t inner, int64_t begin, int64_t end, T* out) {
  if constexpr (std::is_floating_point_v<T>) {
    ReduceColumnsCloned<T, Rule>(x, length, inner, begin, end, out);
  } else {
    Columns<T, Rule>(x, length, inner, begin, end, out);
  }
}

}  // namespace

template <typename T, typename Rule>
Reducer<T, Rule>::Reducer(const std::vector<int64_t>& dims, const std::vector<bool>& reduced) {
  numel_ = Product(dims, 0, dims.size());
  std::vector<Span> spans = Collapse(dims, reduced);
  int64_t between = 0;  // elements of all results but the last
  for (size_t i = spans.size(); i-- > 0;) {
    if (!spans[i].reduced) continue;
    Lines lines;
    lines.length = spans[i].size;
    for (size_t j = 0; j < i; ++j) lines.outer *= spans[j].size;
    for (size_t j = i + 1; j < spans.size(); ++j) lines.inner *= spans[j].size;
    spans.erase(spans.begin() + static_cast<std::ptrdiff_t>(i));
    stages_.push_back(MakeStage(lines));
    const Stage& stage = stages_.back();
    if (stage.n_chunks > 1) {
      partials_ = std::max(partials_, stage.lines.count() * stage.n_chunks);
    }
    between += lines.count();
  }
  if (!stages_.empty()) between -= stages_.back().lines.count();
  workspace_bytes_ = static_cast<uint64_t>(partials_ + between) * sizeof(T);
}

template <typename T, typename Rule>
typename Reducer<T, Rule>::Stage Reducer<T, Rule>::MakeStage(const Lines& lines) {
  Stage stage;
  stage.lines = lines;
  const bool enough = lines.inner == 1 ? lines.outer >= kManyLines : lines.count() >= kManyColumns;
  if (enough || lines.length * lines.inner < 2 * kChunk) return stage;
  stage.chunk = std::max<int64_t>(kChunk / lines.inner, 8);
  stage.n_chunks = (lines.length + stage.chunk - 1) / stage.chunk;
  return stage;
}

template <typename T, typename Rule>
void Reducer<T, Rule>::RunStage(const Stage& stage, const T* x, T* out, T* partial,
                                int32_t n_threads) {
  const Lines& lines = stage.lines;
  const int64_t length = lines.length, inner = lines.inner;
  if (stage.n_chunks > 1) {
    ParallelFor(n_threads, lines.outer * stage.n_chunks, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t first = piece % stage.n_chunks * stage.chunk;
        const int64_t rows = std::min(stage.chunk, length - first);
        const T* from = x + (piece / stage.n_chunks * length + first) * inner;
        if (inner == 1) {
          ReduceRows<T, Rule>(from, 1, rows, partial + piece);
        } else {
          ReduceColumns<T, Rule>(from, rows, inner, 0, inner, partial + piece * inner);
        }
      }
    });
    Stage rest;
    rest.lines = Lines{lines.outer, stage.n_chunks, inner};
    RunStage(rest, partial, out, nullptr, 1);
  } else if (inner == 1) {
    ParallelFor(n_threads, lines.outer, kElementGrain / length, 1, [&](int64_t begin, int64_t end) {
      ReduceRows<T, Rule>(x + begin * length, end - begin, length, out + begin);
    });
  } else {
    // Narrow rows are joined only where a part has all of their columns.
    const int64_t step = inner <= kNarrow ? inner : 64;
    ParallelFor(n_threads, lines.count(), std::max<int64_t>(64, kElementGrain / length), step,
                [&](int64_t begin, int64_t end) {
                  ReduceColumns<T, Rule>(x, length, inner, begin, end, out);
                });
  }
}

template <typename T, typename Rule>
void Reducer<T, Rule>::Run(const T* x, T* out, void* workspace, int32_t n_threads) const {
  if (stages_.empty()) {
    ParallelFor(n_threads, numel_, kElementGrain, 64, [=](int64_t begin, int64_t end) {
      std::memcpy(out + begin, x + begin, static_cast<size_t>(end - begin) * sizeof(T));
    });
    return;
  }
  T* partial = static_cast<T*>(workspace);
  T* result = partial + partials_;
  for (size_t i = 0; i < stages_.size(); ++i) {
    T* to = i + 1 == stages_.size() ? out : result;
    RunStage(stages_[i], x, to, partial, n_threads);
    x = to;
    result += stages_[i].lines.count();
  }
}

#define OPWRIGHT_CPU_INSTANTIATE(T)              \
  template class Reducer<T, Extremum<T, true>>;  \
  template class Reducer<T, Extremum<T, false>>; \
  template class Reducer<T, Sum<T>>
OPWRIGHT_CPU_INSTANTIATE(float);
OPWRIGHT_CPU_INSTANTIATE(double);
OPWRIGHT_CPU_INSTANTIATE(uint8_t);
OPWRIGHT_CPU_INSTANTIATE(uint16_t);
OPWRIGHT_CPU_INSTANTIATE(uint32_t);
OPWRIGHT_CPU_INSTANTIATE(uint64_t);
#undef OPWRIGHT_CPU_INSTANTIATE

#define OPWRIGHT_CPU_INSTANTIATE(T)             \
  template class Reducer<T, Extremum<T, true>>; \
  template class Reducer<T, Extremum<T, false>>
OPWRIGHT_CPU_INSTANTIATE(int8_t);
OPWRIGHT_CPU_INSTANTIATE(int16_t);
OPWRIGHT_CPU_INSTANTIATE(int32_t);
OPWRIGHT_CPU_INSTANTIATE(int64_t);
#undef OPWRIGHT_CPU_INSTANTIATE

}  // namespace opwright_cpu
