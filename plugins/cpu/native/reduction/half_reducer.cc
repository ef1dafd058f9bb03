#include "reduction/half_reducer.h"

#include <algorithm>
#include <type_traits>

#include "common/clones.h"
#include "common/parallel.h"
#include "reduction/half_blocks.h"

namespace opwright_cpu {
namespace {

// Number of floats that are widened at a time; they fill at most half of the L1 cache.
constexpr int64_t kWideFloats = 4096;
constexpr int64_t kHalfStrip = 512;  // columns per chunk
// Elements per chunk if several threads share a line. The size is fixed so that results do not
// depend on the number of threads.
constexpr int64_t kChunk = 65536;
constexpr int64_t kManyPieces = 64;
// Number of blocks summed separately so that long columns lose less precision.
constexpr int64_t kBlocks = 32;
// For shorter rows, many are widened at a time.
constexpr int64_t kLeastSummed = 16;

template <typename Rule>
OPWRIGHT_CPU_CLONES void ReduceFloatRows(const float* x, int64_t n_rows, int64_t length,
                                         float* out) {
  for (int64_t i = 0; i < n_rows; ++i) out[i] = Rule::Row(x + i * length, length);
}

// Adds four rows at a time so that `out` is read and written less often.
template <typename Rule>
OPWRIGHT_CPU_CLONES void Columns(const float* x, int64_t n_rows, int64_t width, float* out) {
  int64_t row = 1;
  for (int64_t c = 0; c < width; ++c) out[c] = x[c];
  for (; row + 4 <= n_rows; row += 4) {
    const float* p = x + row * width;
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) {
      const float first = Rule::Combine(p[c], p[c + width]);
      const float second = Rule::Combine(p[c + 2 * width], p[c + 3 * width]);
      out[c] = Rule::Combine(out[c], Rule::Combine(first, second));
    }
  }
  for (; row < n_rows; ++row) {
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) out[c] = Rule::Combine(out[c], x[row * width + c]);
  }
}

template <typename Rule>
OPWRIGHT_CPU_CLONES void CombineRow(const float* x, int64_t width, float* out) {
#pragma GCC ivdep
  for (int64_t c = 0; c < width; ++c) out[c] = Rule::Combine(out[c], x[c]);
}

}  // namespace

template <typename Rule>
HalfReducer<Rule>::HalfReducer(DLDataType dtype, const std::vector<int64_t>& dims,
                               const std::vector<bool>& reduced)
    : rows_(HalfRowsOf(dtype)), sum_(HalfSumOf(dtype)) {
  std::vector<Span> spans = Collapse(dims, reduced);
  size_t last = spans.size();
  while (last > 0 && !spans[last - 1].reduced) --last;
  if (last == 0) spans.insert(spans.begin() + static_cast<std::ptrdiff_t>(last++), Span{1, true});
  Span& span = spans[last - 1];
  lines_.length = span.size;
  for (size_t i = 0; i + 1 < last; ++i) lines_.outer *= spans[i].size;
  for (size_t i = last; i < spans.size(); ++i) lines_.inner *= spans[i].size;
  n_strips_ = (lines_.inner + kHalfStrip - 1) / kHalfStrip;
  chunk_ = lines_.length;
  const bool is_long = lines_.length * lines_.inner >= 2 * kChunk;
  if (lines_.outer * n_strips_ < kManyPieces && is_long) {
    chunk_ = std::max<int64_t>(kChunk / std::min(lines_.inner, kHalfStrip), 8);
  }
  n_chunks_ = (lines_.length + chunk_ - 1) / chunk_;
  span.size = n_chunks_;
  std::vector<int64_t> left;
  std::vector<bool> left_reduced;
  n_out_ = 1;
  for (const Span& other : spans) {
    left.push_back(other.size);
    left_reduced.push_back(other.reduced);
    if (!other.reduced) n_out_ *= other.size;
  }
  rest_ = Reducer<float, Rule>(left, left_reduced);
}

template <typename Rule>
uint64_t HalfReducer<Rule>::workspace_bytes() const {
  const int64_t partials = lines_.count() * n_chunks_;
  return static_cast<uint64_t>(partials + n_out_) * sizeof(float) + rest_.workspace_bytes();
}

template <typename Rule>
float* HalfReducer<Rule>::Run(const void* x, void* workspace, int32_t n_threads) const {
  const char* from = static_cast<const char*>(x);
  auto* const out = static_cast<float*>(workspace);
  float* const partials = out + n_out_;
  if (lines_.inner == 1 && n_chunks_ == 1) {
    const int64_t grain = std::max<int64_t>(kElementGrain / lines_.length, 1);
    ParallelFor(n_threads, lines_.outer, grain, 1,
                [&](int64_t begin, int64_t end) { ReduceRows(from, begin, end, partials); });
  } else {
    const int64_t pieces = lines_.outer * n_chunks_ * n_strips_;
    const int64_t numel = std::max<int64_t>(lines_.numel() / pieces, 1);
    ParallelFor(n_threads, pieces, std::max<int64_t>(kElementGrain / numel, 1), 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t piece = begin; piece < end; ++piece) {
                    ReduceChunk(from, piece, partials);
                  }
                });
  }
  rest_.Run(partials, out, partials + lines_.count() * n_chunks_, n_threads);
  return out;
}

// Reduces complete lines one after the other.
template <typename Rule>
void HalfReducer<Rule>::ReduceRows(const char* x, int64_t begin, int64_t end, float* out) const {
  alignas(64) float wide[kWideFloats];
  const int64_t length = lines_.length;
  constexpr bool kIsSum = std::is_same_v<Rule, Sum<float>>;
  const int64_t at_once = kWideFloats / length;
  for (int64_t row = begin; row < end;) {
    const char* from = x + row * length * kHalfBytes;
    if (at_once == 0) {
      FoldRows(from, length, 1, out + row++);
      continue;
    }
    if (kIsSum && length >= kLeastSummed) {
      out[row++] = sum_(from, length);
      continue;
    }
    const int64_t n_rows = std::min(at_once, end - row);
    rows_.widen(from, wide, n_rows * length);
    ReduceFloatRows<Rule>(wide, n_rows, length, out + row);
    row += n_rows;
  }
}

template <typename Rule>
void HalfReducer<Rule>::ReduceChunk(const char* x, int64_t piece, float* out) const {
  const int64_t strip = piece % n_strips_ * kHalfStrip;
  const int64_t line = piece / n_strips_;  // index over all chunks of all lines
  const int64_t first = line % n_chunks_ * chunk_;
  const int64_t n_rows = std::min(chunk_, lines_.length - first);
  const int64_t at = (line / n_chunks_ * lines_.length + first) * lines_.inner + strip;
  FoldRows(x + at * kHalfBytes, n_rows, std::min(lines_.inner - strip, kHalfStrip),
           out + line * lines_.inner + strip);
}

// Reduces rows of `width` columns to one row, block by block.
template <typename Rule>
void HalfReducer<Rule>::FoldRows(const char* x, int64_t n_rows, int64_t width, float* out) const {
  alignas(64) float wide[kWideFloats];
  constexpr bool kIsSum = std::is_same_v<Rule, Sum<float>>;
  float block[kHalfStrip], blocks[kHalfStrip];
  const int64_t at_once = kWideFloats / width;
  for (int64_t row = 0, done = 0; row < n_rows; row += at_once, ++done) {
    const int64_t count = std::min(at_once, n_rows - row);
    const char* from = x + row * lines_.inner * kHalfBytes;
    const bool is_run = width == 1 && lines_.inner == 1;
    if (kIsSum && is_run) {
      wide[0] = sum_(from, count);
    } else if (width == lines_.inner) {
      rows_.widen(from, wide, count * width);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        rows_.widen(from + i * lines_.inner * kHalfBytes, wide + i * width, width);
      }
    }
    float* const to = done % kBlocks == 0 ? blocks : block;
    if (width == 1) {
      ReduceFloatRows<Rule>(wide, 1, kIsSum && is_run ? 1 : count, to);
    } else {
      Columns<Rule>(wide, count, width, to);
    }
    if (to == block) CombineRow<Rule>(block, width, blocks);
    if (done % kBlocks != kBlocks - 1 && row + at_once < n_rows) continue;
    if (done < kBlocks) {
      std::copy_n(blocks, width, out);
    } else {
      CombineRow<Rule>(blocks, width, out);
    }
  }
}

template class HalfReducer<Sum<float>>;
template class HalfReducer<Extremum<float, true>>;
template class HalfReducer<Extremum<float, false>>;

}  // namespace opwright_cpu
