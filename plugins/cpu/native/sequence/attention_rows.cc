#include <limits>

#include <opwright/functors.h>

#include "common/clones.h"
#include "sequence/attention.h"

namespace opwright_cpu {

AttentionShape MakeAttentionShape(const opwright::Meta& q, const opwright::Meta& k,
                                  const opwright::Meta& v, bool causal) {
  const std::vector<int64_t> dims = q.shape().dims();
  const size_t rank = dims.size();
  AttentionShape shape;
  shape.queries = dims[rank - 2];
  shape.size = dims[rank - 1];
  shape.keys = k.dim(-2);
  shape.columns = v.dim(-1);
  if (causal && shape.keys <= kFewKeys) shape.query_block = kQueryBlock / 2;
  shape.units = 1;
  for (size_t i = 0; i + 2 < rank; ++i) shape.units *= dims[i];
  if (rank > 2 && k.dim(-3) > 0) shape.share = dims[rank - 3] / k.dim(-3);
  return shape;
}

MaskLayout::MaskLayout(const opwright::Meta& mask, const opwright::Meta& rows) {
  const std::vector<int64_t> dims = mask.shape().dims();
  const std::vector<int64_t> leading = rows.shape().dims();
  const size_t n = leading.size() + 1;  // axes of the scores, the keys the last one
  std::vector<int64_t> strides(n, 0);
  int64_t stride = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t from = dims.size() - 1 - i;
    if (dims[from] != 1) strides[n - 1 - i] = stride;
    stride *= dims[from];
  }
  key_stride_ = strides[n - 1];
  row_stride_ = strides[n - 2];
  dims_.assign(leading.begin(), leading.end() - 1);
  strides_.assign(strides.begin(), strides.end() - 2);
  is_bool_ = opwright::DtypeName(mask.dtype()) == std::string("bool");
}

int64_t MaskLayout::OffsetOf(int64_t unit) const {
  int64_t offset = 0;
  for (size_t i = dims_.size(); i-- > 0;) {
    offset += unit % dims_[i] * strides_[i];
    unit /= dims_[i];
  }
  return offset;
}

namespace {

// Applies the mask to a row and returns how many of its keys are seen.
template <typename T>
OPWRIGHT_CPU_INLINE int64_t MaskRow(const ScoreBlock<T>& block, int64_t row, T* scores) {
  const int64_t seen = block.query + row - block.key + 1;
  const int64_t n = block.causal ? std::max<int64_t>(0, std::min(seen, block.n)) : block.n;
  const int64_t stride = block.mask.key_stride;
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  if (block.mask.allowed != nullptr) {
    const bool* allowed = block.mask.allowed + row * block.mask.row_stride;
    if (stride == 1) {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) scores[j] = allowed[j] ? scores[j] : kNever;
    } else {
      for (int64_t j = 0; j < n; ++j) scores[j] = allowed[0] ? scores[j] : kNever;
    }
  } else if (block.mask.added != nullptr) {
    const T* added = block.mask.added + row * block.mask.row_stride;
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) scores[j] += added[j * stride];
  }
  return n;
}

// Masks the keys behind the n that a row sees, up to a multiple of the widest vector, and returns
// where that ends: a loop up to there has no rest that would run key by key.
template <typename T>
OPWRIGHT_CPU_INLINE int64_t FillVector(int64_t n, T* scores) {
  const int64_t end = RoundUpKeys(n);
  for (int64_t j = n; j < end; ++j) scores[j] = -std::numeric_limits<T>::infinity();
  return end;
}

}  // namespace

template <typename T>
OPWRIGHT_CPU_CLONES void ExponentiateRows(const ScoreBlock<T>& block, T* maximum, T* total,
                                          T* factor) {
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  for (int64_t row = 0; row < block.rows; ++row) {
    T* scores = block.scores + row * block.stride;
    const int64_t n = FillVector(MaskRow(block, row, scores), scores);
    T highest = kNever;
#pragma omp simd reduction(max : highest)
    for (int64_t j = 0; j < n; ++j) highest = scores[j] > highest ? scores[j] : highest;
    highest = maximum[row] > highest ? maximum[row] : highest;
    const T shift = highest == kNever ? T(0) : highest;  // nothing is seen yet
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; ++j) {
      scores[j] = opwright::functors::ExpNonPositive(scores[j] - shift);
      sum += scores[j];
    }
    for (int64_t j = n; j < block.n; ++j) scores[j] = 0;
    factor[row] = opwright::functors::ExpNonPositive(maximum[row] - shift);
    total[row] = total[row] * factor[row] + sum;
    maximum[row] = highest;
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void WeightRows(const ScoreBlock<T>& block, const T* log_sum_exp) {
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  for (int64_t row = 0; row < block.rows; ++row) {
    T* scores = block.scores + row * block.stride;
    const int64_t n = FillVector(MaskRow(block, row, scores), scores);
    const T shift = log_sum_exp[row] == kNever ? T(0) : log_sum_exp[row];
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      // Scores that are added up in another order may lie above the shift, by much if they are
      // huge.
      const T below = scores[j] - shift;
      scores[j] = opwright::functors::ExpNonPositive(below > T(0) ? T(0) : below);
    }
    for (int64_t j = n; j < block.n; ++j) scores[j] = 0;
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void ScoreGradRows(const ScoreBlock<T>& weights, const T* means, T scale,
                                       T* inner) {
  for (int64_t row = 0; row < weights.rows; ++row) {
    const T* weight = weights.scores + row * weights.stride;
    T* grad = inner + row * weights.stride;
    const T mean = means[row];
#pragma omp simd
    for (int64_t j = 0; j < weights.n; ++j) grad[j] = weight[j] * (grad[j] - mean) * scale;
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void ScaleRows(const T* factor, int64_t rows, int64_t columns, T* x) {
  for (int64_t row = 0; row < rows; ++row, x += columns) {
#pragma omp simd
    for (int64_t j = 0; j < columns; ++j) x[j] *= factor[row];
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void DotRows(const T* x, const T* y, int64_t y_stride, int64_t rows,
                                 int64_t columns, T scale, T* out) {
  for (int64_t row = 0; row < rows; ++row, x += columns, y += y_stride) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < columns; ++j) sum += x[j] * y[j];
    out[row] = sum * scale;
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void TransposeRows(const T* from, int64_t rows, int64_t columns, T* to,
                                       int64_t to_stride) {
  constexpr int64_t kBlock = 16;  // a line of the cache of each row
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t last = std::min(first + kBlock, rows);
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = first; i < last; ++i) to[j * to_stride + i] = from[i * columns + j];
    }
  }
}

#define OPWRIGHT_CPU_INSTANTIATE(T)                                            \
  template void ExponentiateRows(const ScoreBlock<T>&, T*, T*, T*);            \
  template void WeightRows(const ScoreBlock<T>&, const T*);                    \
  template void ScoreGradRows(const ScoreBlock<T>&, const T*, T, T*);          \
  template void ScaleRows(const T*, int64_t, int64_t, T*);                     \
  template void DotRows(const T*, const T*, int64_t, int64_t, int64_t, T, T*); \
  template void TransposeRows(const T*, int64_t, int64_t, T*, int64_t);
OPWRIGHT_CPU_INSTANTIATE(float)
OPWRIGHT_CPU_INSTANTIATE(double)
#undef OPWRIGHT_CPU_INSTANTIATE

}  // namespace opwright_cpu
