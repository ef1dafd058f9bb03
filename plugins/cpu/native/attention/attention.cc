// scaled_dot_product_attention: an online softmax over blocks of keys. The maximum and sum of a row
// are updated from block to block (Dao et al., FlashAttention, 2022).
#include <algorithm>
#include <limits>
#include <type_traits>

#include <opwright/functors.h>

#include "attention/attention.h"
#include "common/half_rows.h"
#include "common/parallel.h"
#include "common/widened.h"

namespace opwright_cpu {
namespace {

// Minimum number of multiplications per thread; with less work, another thread does not pay off.
constexpr int64_t kThreadWork = 64 * 1024;

// Slots: as in `Slots`; out, log_sum_exp. 16-bit floats are widened block by block: queries and
// sums per block of queries, keys per unit, values per block of keys.
template <typename Item, typename Slots>
struct AttentionKernelOf {
  using Attrs = typename Slots::Attrs;
  static constexpr bool kIsHalf = !std::is_floating_point_v<Item>;
  using T = std::conditional_t<kIsHalf, float, Item>;

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs& attrs) {
    shape_ = Slots::ShapeOf(ctx, attrs);
    scale_ = ScaleOf<T>(attrs.scale, shape_.size);
    causal_ = attrs.causal;
    const bool has_mask = ctx.has_input(Slots::kMask);
    if (has_mask) mask_ = MaskLayout(ctx.input(Slots::kMask), ctx.output(1));
    if (kIsHalf && has_mask && !mask_.is_bool()) {
      return opwright::Status::Refused("does not support a 16-bit float mask");
    }
    if (kIsHalf) half_ = HalfRowsOf(ctx.input(0).dtype());
    gemm_ = BestGemm<T>();
    const int64_t work = shape_.Multiplications();
    const int64_t most = std::min(shape_.units * shape_.n_blocks(), work / kThreadWork);
    threads_ = static_cast<int32_t>(std::max<int64_t>(1, std::min<int64_t>(most, ctx.n_threads())));
    thread_items_ = kWidened + (kIsHalf ? kQueryBlock * (shape_.size + shape_.columns) : 0) +
                    (kIsHalf ? kKeyBlock * std::max(shape_.size, shape_.columns) : 0) +
                    shape_.size * shape_.keys;
    ctx.SetWorkspace(static_cast<uint64_t>(threads_ * thread_items_) * sizeof(T));
    ctx.SetEstimate(static_cast<uint64_t>(100 + work / (32 * threads_)));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs&) const {
    const int64_t n_blocks = shape_.n_blocks();
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(shape_.units * n_blocks, 1, thread, n_threads);
      Worker worker{this, ctx, ctx.workspace<T>() + thread * thread_items_};
      for (int64_t i = part.begin; i < part.end; ++i) {
        worker.RunBlock(i / n_blocks, i % n_blocks * shape_.query_block);
      }
    });
    return opwright::Status::Ok();
  }

 private:
  // With fewer queries, transposing the keys would take as long as multiplying by them.
  static constexpr int64_t kFewest = 3;
  // The offset of widened items in a thread's memory, after the scores.
  static constexpr int64_t kWidened = kGemmScratch + kQueryBlock * (kKeyBlock + 3);

  // The inputs, outputs and scratch memory of one thread.
  struct Worker {
    const AttentionKernelOf* kernel;
    const opwright::RunContext& ctx;
    T* memory;
    int64_t transposed_unit = -1;
    GemmFn<T> add_values = nullptr;

    // Returns rows of an argument. 16-bit floats are widened into `to`; only PlainSlots with
    // consecutive rows support them.
    Rows<const T> Load(uint32_t slot, const RowLayout& layout, int64_t unit, int64_t row,
                       int64_t rows, T* to) const {
      const auto* items = static_cast<const Item*>(ctx.input(slot).raw()) + layout.At(unit, row);
      if constexpr (kIsHalf) {
        kernel->half_.widen(items, to, rows * layout.row_stride);
        return {to, layout.row_stride};
      } else {
        static_cast<void>(rows);
        static_cast<void>(to);
        return {items, layout.row_stride};
      }
    }
    // The memory for widened items holds, in this order, rows of queries, sums of values, a block
    // of keys or values, and the keys of a unit.
    T* queries() const { return memory + kWidened; }
    T* sums() const { return queries() + kQueryBlock * kernel->shape_.size; }
    T* widened_keys() const { return sums() + kQueryBlock * kernel->shape_.columns; }
    T* transposed_keys() const {
      if (!kIsHalf) return queries();
      return widened_keys() + kKeyBlock * std::max(kernel->shape_.size, kernel->shape_.columns);
    }

    // Hidden keys have weight 0, but their values may be NaN. A non-finite block is recomputed.
    void RunBlock(int64_t unit, int64_t query) {
      const bool hides = kernel->causal_ || ctx.has_input(Slots::kMask);
      add_values = kernel->gemm_;
      if (RunBlockOnce(unit, query) || !hides) return;
      add_values = &MultiplySeen<T>;
      RunBlockOnce(unit, query);
    }

    // Returns whether all results are finite.
    bool RunBlockOnce(int64_t unit, int64_t query) {
      const AttentionShape& s = kernel->shape_;
      T* scores = memory + kGemmScratch;
      T* maximum = scores + kQueryBlock * kKeyBlock;
      T *total = maximum + kQueryBlock, *factor = total + kQueryBlock;
      const int64_t rows = std::min(s.query_block, s.queries - query);
      const int64_t first = unit * s.queries + query;
      Item* const items = static_cast<Item*>(ctx.output(0).raw()) + s.out_rows.At(unit, query);
      Rows<T> out{sums(), s.out_rows.row_stride};
      if constexpr (!kIsHalf) out.data = items;
      const Rows<const T> q = Load(Slots::kQ, s.q_rows, unit, query, rows, queries());
      std::fill(maximum, maximum + rows, -std::numeric_limits<T>::infinity());
      std::fill(total, total + rows, T(0));
      const int64_t keys = kernel->causal_ ? std::min(s.keys, query + rows) : s.keys;
      const bool has_mask = ctx.has_input(Slots::kMask);
      const opwright::InputTensor mask = ctx.input(has_mask ? Slots::kMask : Slots::kQ);
      const MaskBlock<T> of_unit = MaskOf<T>(kernel->mask_, has_mask ? &mask : nullptr, unit);
      for (int64_t key = 0; key < keys; key += kKeyBlock) {
        const int64_t n = std::min(kKeyBlock, keys - key);
        Score(unit, q, rows, key, n, scores);
        const ScoreBlock<T> block{scores,          s.ScoreStride(),       query, rows, key, n,
                                  kernel->causal_, of_unit.At(query, key)};
        ExponentiateRows(block, maximum, total, factor);
        if (key > 0) ScaleRows(factor, rows, s.columns, out);
        AddValues(unit, rows, key, n, scores, out);
      }
      Finish(first, rows, keys, maximum, total, out);
      const bool is_finite = AllFinite<T>(out.data, out.stride, rows, s.columns);
      if constexpr (kIsHalf) kernel->half_.narrow(out.data, items, rows * s.columns);
      return is_finite;
    }

    // Computes scores = scale * q k^T.
    void Score(int64_t unit, Rows<const T> q, int64_t rows, int64_t key, int64_t n, T* scores) {
      const AttentionShape& s = kernel->shape_;
      const int64_t group = unit / s.share;
      if (s.queries <= kFewest) {
        const Rows<const T> k = Load(Slots::kK, s.k_rows, group, key, n, widened_keys());
        for (int64_t i = 0; i < rows; ++i) {
          const Rows<const T> query{q.data + i * q.stride, 0};
          DotRows(k, query, n, s.size, kernel->scale_, scores + i * s.ScoreStride());
        }
        return;
      }
      T* transposed = transposed_keys();
      if (transposed_unit != group) {
        for (int64_t begin = 0; begin < s.keys; begin += kKeyBlock) {
          const int64_t count = std::min(kKeyBlock, s.keys - begin);
          const Rows<const T> k = Load(Slots::kK, s.k_rows, group, begin, count, widened_keys());
          TransposeRows(k, count, s.size, Rows<T>{transposed + begin, s.keys});
        }
        transposed_unit = group;
      }
      kernel->gemm_({rows, n, s.size, q.data, q.stride, 1, transposed + key, s.keys, 1, scores,
                     s.ScoreStride(), kernel->scale_, T(0), memory});
    }

    void AddValues(int64_t unit, int64_t rows, int64_t key, int64_t n, const T* weights,
                   Rows<T> out) {
      const AttentionShape& s = kernel->shape_;
      const Rows<const T> v = Load(Slots::kV, s.v_rows, unit / s.share, key, n, widened_keys());
      add_values({rows, s.columns, n, weights, s.ScoreStride(), 1, v.data, v.stride, 1, out.data,
                  out.stride, T(1), key == 0 ? T(0) : T(1), memory});
    }

    void Finish(int64_t first, int64_t rows, int64_t keys, const T* maximum, T* total,
                Rows<T> out) {
      const int64_t columns = kernel->shape_.columns;
      T* log_sum_exp = ctx.output(1).template data<T>() + first;
      for (int64_t i = 0; keys == 0 && i < rows; ++i) {
        std::fill_n(out.data + i * out.stride, columns, T(0));
      }
      for (int64_t i = 0; i < rows; ++i) {
        log_sum_exp[i] = maximum[i] + opwright::functors::Log(total[i]);
        total[i] = total[i] == T(0) ? T(0) : T(1) / total[i];  // 0: all keys are hidden
      }
      ScaleRows(total, rows, columns, out);
    }
  };

  AttentionShape shape_;
  MaskLayout mask_;
  T scale_ = 1;
  bool causal_ = false;
  int32_t threads_ = 1;
  int64_t thread_items_ = 0;
  GemmFn<T> gemm_ = nullptr;
  HalfRows half_;
};

template <typename Item>
using AttentionKernel = AttentionKernelOf<Item, PlainSlots>;
template <typename Item>
using PackedAttentionKernel = AttentionKernelOf<Item, PackedSlots>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("scaled_dot_product_attention", "cpu", opwright_cpu::AttentionKernel,
                             float, double, OPWRIGHT_CPU_HALVES);
OPWRIGHT_REGISTER_KERNEL_FOR("cpu.packed_attention", "cpu", opwright_cpu::PackedAttentionKernel,
                             float, double);
OPWRIGHT_CPU_REGISTER_WIDENED("scaled_dot_product_attention", opwright_cpu::AttentionKernel);
