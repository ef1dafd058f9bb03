// How Reducer works: for the files that instantiate it, one for each kind of rule.
#ifndef OPWRIGHT_CPU_REDUCTION_REDUCER_KERNEL_H_
#define OPWRIGHT_CPU_REDUCTION_REDUCER_KERNEL_H_

#include "reduction/reducer.h"

#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"

namespace opwright_cpu {
namespace reducer {

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
template <typename T, typename Rule, typename In>
OPWRIGHT_CPU_INLINE void FoldRows(const In* x, int64_t n_rows, int64_t stride, int64_t width,
                                  T* __restrict__ out) {
  for (int64_t c = 0; c < width; ++c) out[c] = Rule::Of(x[c]);
  int64_t row = 1;
  for (; row + 8 <= n_rows; row += 8) {
    const In* p = x + row * stride;
    for (int64_t c = 0; c < width; ++c) {
      const In* q = p + c;
      const auto two = [q, stride](int64_t i) OPWRIGHT_CPU_TERM {
        return Rule::Combine(Rule::Of(q[i * stride]), Rule::Of(q[(i + 1) * stride]));
      };
      const T first = Rule::Combine(two(0), two(2));
      const T second = Rule::Combine(two(4), two(6));
      out[c] = Rule::Combine(out[c], Rule::Combine(first, second));
    }
  }
  for (; row < n_rows; ++row) {
    const In* p = x + row * stride;
    for (int64_t c = 0; c < width; ++c) out[c] = Rule::Combine(out[c], Rule::Of(p[c]));
  }
}

template <typename T, typename Rule, typename In>
OPWRIGHT_CPU_INLINE void FoldStrip(const In* x, int64_t n_rows, int64_t stride, int64_t width,
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
template <typename T, typename Rule, typename In>
OPWRIGHT_CPU_INLINE void Columns(const In* x, int64_t length, int64_t inner, int64_t begin,
                                 int64_t end, T* out) {
  T wide[4 * kNarrow];
  while (begin < end) {
    const int64_t outer = begin / inner;
    const int64_t column = begin % inner;
    const int64_t width = std::min(std::min(inner - column, end - begin), kStrip);
    const In* from = x + outer * length * inner + column;
    const bool join = width == inner && inner <= kNarrow && length * inner >= 4 * kNarrow;
    const int64_t joined = join ? 4 * kNarrow / width : 1;
    const int64_t whole = length / joined;
    FoldStrip<T, Rule>(from, whole, joined * inner, joined * width, join ? wide : out + begin);
    if (join) {
      for (int64_t c = 0; c < width; ++c) {
        T total = wide[c];
        for (int64_t i = 1; i < joined; ++i) total = Rule::Combine(total, wide[i * width + c]);
        for (int64_t i = whole * joined; i < length; ++i) {
          total = Rule::Combine(total, Rule::Of(from[i * width + c]));
        }
        out[begin + c] = total;
      }
    }
    begin += width;
  }
}

template <typename T, typename Rule, typename In>
OPWRIGHT_CPU_CLONES void ReduceRows(const In* x, int64_t n_rows, int64_t length, T* out) {
  for (int64_t i = 0; i < n_rows; ++i) out[i] = Rule::Row(x + i * length, length);
}

template <typename T, typename Rule, typename In>
OPWRIGHT_CPU_CLONES void ReduceColumns(const In* x, int64_t length, int64_t inner, int64_t begin,
                                       int64_t end, T* out) {
  Columns<T, Rule>(x, length, inner, begin, end, out);
}

template <typename T, typename Rule, typename In>
OPWRIGHT_CPU_CLONES void Convert(const In* x, int64_t n, T* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = Rule::Of(x[i]);
}

}  // namespace reducer

template <typename T, typename Rule, typename In>
Reducer<T, Rule, In>::Reducer(const std::vector<int64_t>& dims, const std::vector<bool>& reduced) {
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

template <typename T, typename Rule, typename In>
typename Reducer<T, Rule, In>::Stage Reducer<T, Rule, In>::MakeStage(const Lines& lines) {
  Stage stage;
  stage.lines = lines;
  const bool enough = lines.inner == 1 ? lines.outer >= reducer::kManyLines
                                       : lines.count() >= reducer::kManyColumns;
  if (enough || lines.length * lines.inner < 2 * reducer::kChunk) return stage;
  stage.chunk = std::max<int64_t>(reducer::kChunk / lines.inner, 8);
  stage.n_chunks = (lines.length + stage.chunk - 1) / stage.chunk;
  return stage;
}

template <typename T, typename Rule, typename In>
template <typename From>
void Reducer<T, Rule, In>::RunStage(const Stage& stage, const From* x, T* out, T* partial,
                                    int32_t n_threads) {
  const Lines& lines = stage.lines;
  const int64_t length = lines.length, inner = lines.inner;
  if (stage.n_chunks > 1) {
    ParallelFor(n_threads, lines.outer * stage.n_chunks, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t first = piece % stage.n_chunks * stage.chunk;
        const int64_t rows = std::min(stage.chunk, length - first);
        const From* from = x + (piece / stage.n_chunks * length + first) * inner;
        if (inner == 1) {
          reducer::ReduceRows<T, Rule>(from, 1, rows, partial + piece);
        } else {
          reducer::ReduceColumns<T, Rule>(from, rows, inner, 0, inner, partial + piece * inner);
        }
      }
    });
    Stage rest;
    rest.lines = Lines{lines.outer, stage.n_chunks, inner};
    RunStage(rest, partial, out, nullptr, 1);
  } else if (inner == 1) {
    ParallelFor(n_threads, lines.outer, kElementGrain / length, 1, [&](int64_t begin, int64_t end) {
      reducer::ReduceRows<T, Rule>(x + begin * length, end - begin, length, out + begin);
    });
  } else {
    // Narrow rows are joined only where a part has all of their columns.
    const int64_t step = inner <= reducer::kNarrow ? inner : 64;
    ParallelFor(n_threads, lines.count(), std::max<int64_t>(64, kElementGrain / length), step,
                [&](int64_t begin, int64_t end) {
                  reducer::ReduceColumns<T, Rule>(x, length, inner, begin, end, out);
                });
  }
}

template <typename T, typename Rule, typename In>
void Reducer<T, Rule, In>::Run(const In* x, T* out, void* workspace, int32_t n_threads) const {
  if (stages_.empty()) {
    ParallelFor(n_threads, numel_, kElementGrain, 64, [=](int64_t begin, int64_t end) {
      reducer::Convert<T, Rule>(x + begin, end - begin, out + begin);
    });
    return;
  }
  T* partial = static_cast<T*>(workspace);
  T* result = partial + partials_;
  const T* last = nullptr;
  for (size_t i = 0; i < stages_.size(); ++i) {
    T* to = i + 1 == stages_.size() ? out : result;
    if (i == 0) {
      RunStage(stages_[i], x, to, partial, n_threads);
    } else {
      RunStage(stages_[i], last, to, partial, n_threads);
    }
    last = to;
    result += stages_[i].lines.count();
  }
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_REDUCTION_REDUCER_KERNEL_H_
