#include <limits>

#include <opwright/functors.h>

#include "attention/attention.h"
#include "common/clones.h"

namespace opwright_cpu {

namespace {

RowLayout OneAfterTheOther(int64_t rows, int64_t columns) {
  RowLayout layout;
  layout.batch_stride = rows * columns;
  layout.row_stride = columns;
  return layout;
}

}  // namespace

AttentionShape MakeAttentionShape(const opwright::Meta& q, const opwright::Meta& k,
                                  const opwright::Meta& v, bool causal) {
  const std::vector<int64_t> dims = q.shape().dims();
  const size_t rank = dims.size();
  AttentionShape shape;
  shape.queries = dims[rank - 2];
  shape.size = dims[rank - 1];
  shape.keys = k.dim(-2);
  shape.columns = v.dim(-1);
  if (causal && shape.keys <= kFewKeys) shape.query_block = kFewQueries;
  shape.units = 1;
  for (size_t i = 0; i + 2 < rank; ++i) shape.units *= dims[i];
  if (rank > 2 && k.dim(-3) > 0) shape.share = dims[rank - 3] / k.dim(-3);
  shape.q_rows = OneAfterTheOther(shape.queries, shape.size);
  shape.k_rows = OneAfterTheOther(shape.keys, shape.size);
  shape.v_rows = OneAfterTheOther(shape.keys, shape.columns);
  shape.out_rows = OneAfterTheOther(shape.queries, shape.columns);
  return shape;
}

AttentionShape MakePackedShape(const opwright::Meta& qkv, int64_t heads, bool causal) {
  int64_t width = qkv.dim(2);
  for (int32_t axis = 3; axis < qkv.rank(); ++axis) width *= qkv.dim(axis);
  width /= 3;
  const int64_t time = qkv.dim(1);
  AttentionShape shape;
  shape.units = qkv.dim(0) * heads;
  shape.queries = shape.keys = time;
  shape.size = shape.columns = width / heads;
  if (causal && time <= kFewKeys) shape.query_block = kFewQueries;
  shape.q_rows = {heads, time * 3 * width, shape.size, 3 * width, 0};
  shape.k_rows = shape.v_rows = shape.q_rows;
  shape.k_rows.first = width;
  shape.v_rows.first = 2 * width;
  shape.out_rows = {heads, time * width, shape.size, width, 0};
  return shape;
}

MaskLayout::MaskLayout(const opwright::Meta& mask, const opwright::Meta& rows) {
  const std::vector<int64_t> dims = mask.shape().dims();
  const std::vector<int64_t> leading = rows.shape().dims();
  const size_t n = leading.size() + 1;  // axes of the scores, of which the keys are the last
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

// Applies the mask to a row and returns the number of visible keys.
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
    for (int64_t j = 0; j < n; ++j) {  // a hidden key may have a NaN score
      const T offset = added[j * stride];
      scores[j] = offset == kNever ? kNever : scores[j] + offset;
    }
  }
  return n;
}

// Rows are processed in complete groups of kGroup keys, the size of the widest vector, with -inf
// for keys beyond the n that a row sees. Complete groups avoid scalar loops, and scalar stores for
// which later vector loads would stall.
constexpr int32_t kGroup = 16;

// Sums pairwise, since sequential additions would form a dependency chain.
template <typename T>
OPWRIGHT_CPU_INLINE T SumOf(const T* group) {
  T halves[kGroup / 2];
#pragma omp simd
  for (int32_t i = 0; i < 8; ++i) halves[i] = group[i] + group[i + 8];
  for (int32_t i = 0; i < 4; ++i) halves[i] += halves[i + 4];
  return (halves[0] + halves[2]) + (halves[1] + halves[3]);
}

template <typename T>
OPWRIGHT_CPU_INLINE T Greatest(const T* scores, int32_t n, T least) {
  const int32_t whole = n / kGroup * kGroup;
  T greatest = least;
#pragma omp simd reduction(max : greatest)
  for (int32_t j = 0; j < whole; ++j) greatest = scores[j] > greatest ? scores[j] : greatest;
  if (whole == n) return greatest;
#pragma omp simd reduction(max : greatest)
  for (int32_t i = 0; i < kGroup; ++i) {
    const T score = scores[whole + i];
    const T seen = whole + i < n ? score : least;
    greatest = seen > greatest ? seen : greatest;
  }
  return greatest;
}

// Replaces the scores of one group by exp(min(score - shift, 0)), or 0 for key n and later keys,
// and adds them to the sums.
template <typename T>
OPWRIGHT_CPU_INLINE void ExponentiateGroup(T* scores, int32_t n, T shift, T* sums) {
  constexpr T kNever = -std::numeric_limits<T>::infinity();
#pragma omp simd
  for (int32_t i = 0; i < kGroup; ++i) {
    const T below = scores[i] - shift;
    const T seen = i < n ? below : kNever;
    const T power = opwright::functors::ExpNonPositive(seen > T(0) ? T(0) : seen);
    scores[i] = power;
    sums[i] += power;
  }
}

// Exponentiates n scores in place, relative to the shift, and returns their sum.
template <typename T>
OPWRIGHT_CPU_INLINE T Exponentiate(T* scores, int32_t n, T shift) {
  alignas(64) T sums[kGroup] = {};
  int32_t j = 0;
  for (; j + kGroup <= n; j += kGroup) ExponentiateGroup(scores + j, kGroup, shift, sums);
  if (j < n) ExponentiateGroup(scores + j, n - j, shift, sums);
  return SumOf(sums);
}

template <typename T>
OPWRIGHT_CPU_INLINE void FillZero(int64_t begin, int64_t end, T* scores) {
  for (int64_t j = begin; j < end; ++j) scores[j] = 0;
}

}  // namespace

template <typename T>
OPWRIGHT_CPU_CLONES void ExponentiateRows(const ScoreBlock<T>& block, T* maximum, T* total,
                                          T* factor) {
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  for (int64_t row = 0; row < block.rows; ++row) {
    T* scores = block.scores + row * block.stride;
    const auto n = static_cast<int32_t>(MaskRow(block, row, scores));
    const T highest = Greatest(scores, n, maximum[row]);
    const T shift = highest == kNever ? T(0) : highest;  // kNever: no key was visible yet
    const T sum = Exponentiate(scores, n, shift);
    FillZero(RoundUpKeys(n), block.n, scores);
    const bool is_first = maximum[row] == kNever;
    factor[row] = is_first ? T(0) : opwright::functors::ExpNonPositive(maximum[row] - shift);
    total[row] = total[row] * factor[row] + sum;
    maximum[row] = highest;
  }
}

// Scores can exceed the shift, because they are summed in a different order. For huge scores, the
// excess is large.
template <typename T>
OPWRIGHT_CPU_CLONES void WeightRows(const ScoreBlock<T>& block, const T* log_sum_exp) {
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  for (int64_t row = 0; row < block.rows; ++row) {
    T* scores = block.scores + row * block.stride;
    const auto n = static_cast<int32_t>(MaskRow(block, row, scores));
    Exponentiate(scores, n, log_sum_exp[row] == kNever ? T(0) : log_sum_exp[row]);
    FillZero(RoundUpKeys(n), block.n, scores);
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
    for (int64_t j = 0; j < weights.n; ++j) {
      grad[j] = weight[j] == T(0) ? T(0) : weight[j] * (grad[j] - mean) * scale;
    }
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void ScaleRows(const T* factor, int64_t rows, int64_t columns, Rows<T> x) {
  for (int64_t row = 0; row < rows; ++row) {
    T* to = x.data + row * x.stride;
    if (factor[row] == T(0)) {
      std::fill_n(to, columns, T(0));
      continue;
    }
#pragma omp simd
    for (int64_t j = 0; j < columns; ++j) to[j] *= factor[row];
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void DotRows(Rows<const T> x, Rows<const T> y, int64_t rows, int64_t columns,
                                 T scale, T* out) {
  for (int64_t row = 0; row < rows; ++row) {
    const T *left = x.data + row * x.stride, *right = y.data + row * y.stride;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < columns; ++j) sum += left[j] * right[j];
    out[row] = sum * scale;
  }
}

namespace {

// Transposes 4 x 4 elements by shuffles; every processor supports them for vectors of this size.
template <typename T>
OPWRIGHT_CPU_INLINE void TransposeFour(const T* from, int64_t from_stride, T* to,
                                       int64_t to_stride) {
  // NOLINTNEXTLINE(modernize-use-using): GCC ignores attributes of dependent types there
  typedef T Vector __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
  using Mask = decltype(Vector{} < Vector{});
  const Vector r0 = *reinterpret_cast<const Vector*>(from);
  const Vector r1 = *reinterpret_cast<const Vector*>(from + from_stride);
  const Vector r2 = *reinterpret_cast<const Vector*>(from + 2 * from_stride);
  const Vector r3 = *reinterpret_cast<const Vector*>(from + 3 * from_stride);
  const Vector low01 = __builtin_shuffle(r0, r1, Mask{0, 4, 1, 5});
  const Vector high01 = __builtin_shuffle(r0, r1, Mask{2, 6, 3, 7});
  const Vector low23 = __builtin_shuffle(r2, r3, Mask{0, 4, 1, 5});
  const Vector high23 = __builtin_shuffle(r2, r3, Mask{2, 6, 3, 7});
  *reinterpret_cast<Vector*>(to) = __builtin_shuffle(low01, low23, Mask{0, 1, 4, 5});
  *reinterpret_cast<Vector*>(to + to_stride) = __builtin_shuffle(low01, low23, Mask{2, 3, 6, 7});
  *reinterpret_cast<Vector*>(to + 2 * to_stride) =
      __builtin_shuffle(high01, high23, Mask{0, 1, 4, 5});
  *reinterpret_cast<Vector*>(to + 3 * to_stride) =
      __builtin_shuffle(high01, high23, Mask{2, 3, 6, 7});
}

}  // namespace

template <typename T>
void TransposeRows(Rows<const T> from, int64_t rows, int64_t columns, Rows<T> to) {
  const int64_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  for (int64_t i = 0; i < whole_rows; i += 4) {
    const T* source = from.data + i * from.stride;
    for (int64_t j = 0; j < whole_columns; j += 4) {
      TransposeFour(source + j, from.stride, to.data + j * to.stride + i, to.stride);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) {
      to.data[j * to.stride + i] = from.data[i * from.stride + j];
    }
  }
}

#define OPWRIGHT_CPU_INSTANTIATE(T)                                             \
  template void ExponentiateRows(const ScoreBlock<T>&, T*, T*, T*);             \
  template void WeightRows(const ScoreBlock<T>&, const T*);                     \
  template void ScoreGradRows(const ScoreBlock<T>&, const T*, T, T*);           \
  template void ScaleRows(const T*, int64_t, int64_t, Rows<T>);                 \
  template void DotRows(Rows<const T>, Rows<const T>, int64_t, int64_t, T, T*); \
  template void TransposeRows(Rows<const T>, int64_t, int64_t, Rows<T>);
OPWRIGHT_CPU_INSTANTIATE(float)
OPWRIGHT_CPU_INSTANTIATE(double)
#undef OPWRIGHT_CPU_INSTANTIATE

}  // namespace opwright_cpu
