// Code shared by the attention kernels: sizes, the mask, and the partition into blocks. Scores are
// computed for a block of queries and a block of keys at a time, never all at once.
#ifndef OPWRIGHT_CPU_ATTENTION_ATTENTION_H_
#define OPWRIGHT_CPU_ATTENTION_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include <opwright/sdk.hpp>

#include "attention/attributes.h"
#include "attention/seen.h"
#include "gemm/gemm.h"

namespace opwright_cpu {

// A block of scores and its values fit into the L2 cache; both sizes are multiples of Gemm's
// panels.
constexpr int64_t kQueryBlock = 64;
constexpr int64_t kKeyBlock = 384;

// Queries that see fewer keys than this are processed in smaller blocks. Under a causal mask, a
// block is multiplied by all keys that its last row sees, so half of the work at the diagonal is
// wasted.
constexpr int64_t kFewKeys = 128;
constexpr int64_t kFewQueries = 16;

// Rounds a number of keys up to a multiple of 16, the number of elements in the widest vector.
constexpr int64_t RoundUpKeys(int64_t keys) { return (keys + 15) / 16 * 16; }

// The positions of a unit's rows in an array. Units are either consecutive matrices or the heads of
// a batch, side by side.
struct RowLayout {
  int64_t heads = 1;
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t row_stride = 0;
  int64_t first = 0;

  int64_t At(int64_t unit, int64_t row) const {
    return first + unit / heads * batch_stride + unit % heads * head_stride + row * row_stride;
  }
};

// A unit has queries [queries, size]. `share` adjacent units use the same keys [keys, size] and
// values [keys, columns].
struct AttentionShape {
  int64_t units = 0;
  int64_t share = 1;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t size = 0;
  int64_t columns = 0;
  int64_t query_block = kQueryBlock;
  RowLayout q_rows, k_rows, v_rows, out_rows;  // keys and values have one unit per group

  // Returns the row stride of score blocks, a multiple of the vector width.
  int64_t ScoreStride() const { return std::min(kKeyBlock, RoundUpKeys(keys)); }

  int64_t n_blocks() const { return (queries + query_block - 1) / query_block; }
  int64_t Multiplications() const { return units * queries * keys * (size + columns); }
};

AttentionShape MakeAttentionShape(const opwright::Meta& q, const opwright::Meta& k,
                                  const opwright::Meta& v, bool causal);

// Makes the shape of packed qkv [batch, time, 3 * heads * size]. The last axis of qkv, which may be
// split into three, contains the queries of all heads, then the keys, then the values.
AttentionShape MakePackedShape(const opwright::Meta& qkv, int64_t heads, bool causal);

// The input slots of the two operators; the mask may be absent.
struct PlainSlots {
  using Attrs = AttentionAttrs;
  static constexpr uint32_t kQ = 0, kK = 1, kV = 2, kMask = 3;
  static AttentionShape ShapeOf(const opwright::PrepareContext& ctx, const Attrs& attrs) {
    return MakeAttentionShape(ctx.input(kQ), ctx.input(kK), ctx.input(kV), attrs.causal);
  }
};
struct PackedSlots {
  using Attrs = PackedAttentionAttrs;
  static constexpr uint32_t kQ = 0, kK = 0, kV = 0, kMask = 1;
  static AttentionShape ShapeOf(const opwright::PrepareContext& ctx, const Attrs& attrs) {
    return MakePackedShape(ctx.input(kQ), attrs.heads, attrs.causal);
  }
};

template <typename T>
T ScaleOf(const std::optional<double>& scale, int64_t size) {
  const double standard = 1.0 / std::sqrt(static_cast<double>(std::max<int64_t>(size, 1)));
  return static_cast<T>(scale.value_or(standard));
}

// How a mask broadcasts to the scores.
class MaskLayout {
 public:
  MaskLayout() = default;
  // `rows` is the shape of the scores without the key axis.
  MaskLayout(const opwright::Meta& mask, const opwright::Meta& rows);

  // Returns the offset of a unit's mask, in elements.
  int64_t OffsetOf(int64_t unit) const;
  int64_t row_stride() const { return row_stride_; }
  int64_t key_stride() const { return key_stride_; }
  bool is_bool() const { return is_bool_; }

 private:
  std::vector<int64_t> dims_;     // lengths of the batch axes
  std::vector<int64_t> strides_;  // strides of the mask along these axes
  int64_t row_stride_ = 0;
  int64_t key_stride_ = 0;
  bool is_bool_ = false;
};

// The part of the mask for a block of scores. If a mask exists, one of the pointers is not NULL.
template <typename T>
struct MaskBlock {
  const bool* allowed = nullptr;
  const T* added = nullptr;
  int64_t row_stride = 0;
  int64_t key_stride = 0;

  MaskBlock At(int64_t query, int64_t key) const {
    const int64_t offset = query * row_stride + key * key_stride;
    MaskBlock block = *this;
    if (allowed != nullptr) block.allowed += offset;
    if (added != nullptr) block.added += offset;
    return block;
  }
};

// Returns an empty mask if the tensor is NULL.
template <typename T>
MaskBlock<T> MaskOf(const MaskLayout& layout, const opwright::InputTensor* mask, int64_t unit) {
  MaskBlock<T> block;
  if (mask == nullptr) return block;
  const int64_t offset = layout.OffsetOf(unit);
  if (layout.is_bool()) {
    block.allowed = static_cast<const bool*>(mask->raw()) + offset;
  } else {
    block.added = mask->data<T>() + offset;
  }
  block.row_stride = layout.row_stride();
  block.key_stride = layout.key_stride();
  return block;
}

// A block of scores for `rows` queries starting at `query` and `n` keys starting at `key`. The
// scores of adjacent queries are `stride` elements apart.
template <typename T>
struct ScoreBlock {
  T* scores;
  int64_t stride;
  int64_t query;
  int64_t rows;
  int64_t key;
  int64_t n;
  bool causal;
  MaskBlock<T> mask;
};

// Replaces scores by exp(score - maximum), where the maximum is over all blocks of the row so far.
// `maximum` and `total`, the sum of these exponentials, are carried from block to block. `factor`
// receives the factor for rescaling the sums of earlier blocks.
template <typename T>
void ExponentiateRows(const ScoreBlock<T>& block, T* maximum, T* total, T* factor);

// Replaces scores by exp(score - log_sum_exp), the softmax weights.
template <typename T>
void WeightRows(const ScoreBlock<T>& block, const T* log_sum_exp);

// Computes the gradient of the scores from the gradient of the weights, in place:
// inner = weights * (inner - mean) * scale, or 0 if the weight is 0.
template <typename T>
void ScoreGradRows(const ScoreBlock<T>& weights, const T* means, T scale, T* inner);

// A matrix whose rows are `stride` elements apart.
template <typename T>
struct Rows {
  T* data;
  int64_t stride;
};

// Multiplies each row of `columns` elements by its factor; a factor of 0 sets even NaN elements to
// 0.
template <typename T>
void ScaleRows(const T* factor, int64_t rows, int64_t columns, Rows<T> x);

// Computes out[i] = scale * dot(row i of x, row i of y).
template <typename T>
void DotRows(Rows<const T> x, Rows<const T> y, int64_t rows, int64_t columns, T scale, T* out);

// Copies from[i, j] to to[j, i].
template <typename T>
void TransposeRows(Rows<const T> from, int64_t rows, int64_t columns, Rows<T> to);

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ATTENTION_ATTENTION_H_
