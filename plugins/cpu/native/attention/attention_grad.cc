// The gradient of scaled_dot_product_attention: the weights of a block are recomputed from the
// scores and log_sum_exp.
#include <algorithm>

#include "attention/attention.h"
#include "common/parallel.h"
#include "common/widened.h"

namespace opwright_cpu {
namespace {

// In packed inputs, the rows of a head are far apart and map to few sets of the L1 cache. The rows
// are therefore copied to contiguous memory of the thread, which also receives the gradients.
//
// Slots: as in `Slots`, then out, log_sum_exp and out_grad; the gradients of q, k and v.
template <typename T, typename Slots>
struct AttentionGradKernelOf {
  using Attrs = typename Slots::Attrs;
  static constexpr uint32_t kOut = Slots::kMask + 1;
  static constexpr uint32_t kLogSumExp = kOut + 1;
  static constexpr uint32_t kOutGrad = kOut + 2;

  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const Attrs& attrs) {
    shape_ = Slots::ShapeOf(ctx, attrs);
    scale_ = ScaleOf<T>(attrs.scale, shape_.size);
    causal_ = attrs.causal;
    if (ctx.has_input(Slots::kMask)) {
      mask_ = MaskLayout(ctx.input(Slots::kMask), ctx.input(kLogSumExp));
    }
    gemm_ = BestGemm<T>();
    const int64_t groups = shape_.units / std::max<int64_t>(shape_.share, 1);
    threads_ =
        static_cast<int32_t>(std::max<int64_t>(1, std::min<int64_t>(groups, ctx.n_threads())));
    thread_items_ = kGemmScratch + 2 * kQueryBlock * kKeyBlock + shape_.share * shape_.queries +
                    shape_.keys * (shape_.size + shape_.columns);
    ctx.SetWorkspace(static_cast<uint64_t>(threads_ * thread_items_) * sizeof(T));
    const int64_t work = shape_.Multiplications();
    ctx.SetEstimate(static_cast<uint64_t>(100 + 5 * work / (64 * threads_)));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const Attrs&) const {
    if (shape_.units == 0) return opwright::Status::Ok();
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(shape_.units / shape_.share, 1, thread, n_threads);
      Worker worker(this, ctx, ctx.workspace<T>() + thread * thread_items_);
      for (int64_t group = part.begin; group < part.end; ++group) worker.RunGroup(group);
    });
    return opwright::Status::Ok();
  }

 private:
  // The inputs, outputs and scratch memory of one thread.
  class Worker {
   public:
    Worker(const AttentionGradKernelOf* kernel, const opwright::RunContext& ctx, T* memory)
        : kernel_(kernel),
          s_(kernel->shape_),
          q_(ctx.input(Slots::kQ).template data<T>()),
          k_(ctx.input(Slots::kK).template data<T>()),
          v_(ctx.input(Slots::kV).template data<T>()),
          out_(ctx.input(kOut).template data<T>()),
          log_sum_exp_(ctx.input(kLogSumExp).template data<T>()),
          grad_(ctx.input(kOutGrad).template data<T>()),
          mask_(ctx.input(ctx.has_input(Slots::kMask) ? Slots::kMask : Slots::kQ)),
          has_mask_(ctx.has_input(Slots::kMask)),
          scratch_(memory),
          scores_(memory + kGemmScratch),
          inner_(scores_ + kQueryBlock * kKeyBlock),
          means_(inner_ + kQueryBlock * kKeyBlock),
          keys_(means_ + s_.share * s_.queries),
          values_(keys_ + s_.keys * s_.size) {
      T** grads[] = {&q_grad_, &k_grad_, &v_grad_};
      constexpr uint32_t kGradSlots[] = {Slots::kQ, Slots::kK, Slots::kV};
      for (uint32_t i = 0; i < 3; ++i) {
        if (ctx.has_output(kGradSlots[i])) {
          *grads[i] = ctx.output(kGradSlots[i]).template data<T>();
        }
      }
    }

    // Hidden keys have weight 0 but may be NaN, and so may queries that do not see any key. If a
    // result is not finite, the group is recomputed.
    void RunGroup(int64_t group) {
      multiply_ = kernel_->gemm_;
      RunGroupOnce(group);
      if (!(kernel_->causal_ || has_mask_) || IsFinite(group)) return;
      multiply_ = &MultiplySeen<T>;
      RunGroupOnce(group);
    }

   private:
    bool IsFinite(int64_t group) const {
      bool is_finite = true;
      for (int64_t unit = group * s_.share; unit < (group + 1) * s_.share; ++unit) {
        is_finite = is_finite && IsFinite(q_grad_, s_.q_rows, unit, s_.queries, s_.size);
      }
      return is_finite && IsFinite(k_grad_, s_.k_rows, group, s_.keys, s_.size) &&
             IsFinite(v_grad_, s_.v_rows, group, s_.keys, s_.columns);
    }
    static bool IsFinite(const T* grad, const RowLayout& layout, int64_t unit, int64_t rows,
                         int64_t columns) {
      return grad == nullptr ||
             AllFinite(grad + layout.At(unit, 0), layout.row_stride, rows, columns);
    }

    // Processes the units that share keys and values, one after another, and sums their gradients.
    void RunGroupOnce(int64_t group) {
      TransposeRows(At(k_, s_.k_rows, group, 0), s_.keys, s_.size, Rows<T>{keys_, s_.keys});
      TransposeRows(At(v_, s_.v_rows, group, 0), s_.keys, s_.columns, Rows<T>{values_, s_.keys});
      for (int64_t shared = 0; shared < s_.share; ++shared) {
        const int64_t unit = group * s_.share + shared;
        DotRows(At(out_, s_.out_rows, unit, 0), At(grad_, s_.out_rows, unit, 0), s_.queries,
                s_.columns, T(1), means_ + shared * s_.queries);
        if (s_.keys == 0) FillZero(q_grad_, s_.q_rows, unit, 0, s_.queries, s_.size);
      }
      for (int64_t key = 0; key < s_.keys; key += kKeyBlock) {
        const int64_t n = std::min(kKeyBlock, s_.keys - key);
        const int64_t seen = kernel_->causal_ ? std::clamp<int64_t>(s_.queries - key, 0, n) : n;
        for (int64_t shared = 0; shared < s_.share; ++shared) RunQueries(group, shared, key, seen);
        // No query sees these keys.
        FillKeys(group, key + seen, n - seen);
      }
    }

    // Processes the blocks of queries from the last to the first. The last block sees every key
    // that any block sees, so it initializes their gradients; without queries, the gradients are 0.
    void RunQueries(int64_t group, int64_t shared, int64_t key, int64_t n) {
      const bool causal = kernel_->causal_;
      for (int64_t block = s_.n_blocks(); block-- > 0;) {
        const int64_t query = block * s_.query_block;
        const int64_t end = std::min(query + s_.query_block, s_.queries);
        if (causal && end <= key) break;
        const bool is_first = shared == 0 && block == s_.n_blocks() - 1;
        RunBlock(group, shared, query, key, causal ? std::min(n, end - key) : n, is_first);
      }
      if (s_.queries == 0) FillKeys(group, key, n);
    }

    static Rows<const T> At(const T* data, const RowLayout& layout, int64_t unit, int64_t row) {
      return {data + layout.At(unit, row), layout.row_stride};
    }
    static Rows<T> At(T* data, const RowLayout& layout, int64_t unit, int64_t row) {
      return {data + layout.At(unit, row), layout.row_stride};
    }

    static void FillZero(T* grad, const RowLayout& layout, int64_t unit, int64_t row, int64_t n,
                         int64_t columns) {
      if (grad == nullptr) return;
      const Rows<T> rows = At(grad, layout, unit, row);
      for (int64_t i = 0; i < n; ++i) std::fill_n(rows.data + i * rows.stride, columns, T(0));
    }
    void FillKeys(int64_t group, int64_t key, int64_t n) {
      FillZero(k_grad_, s_.k_rows, group, key, n, s_.size);
      FillZero(v_grad_, s_.v_rows, group, key, n, s_.columns);
    }

    void RunBlock(int64_t group, int64_t shared, int64_t query, int64_t key, int64_t n,
                  bool is_first) {
      const int64_t unit = group * s_.share + shared;
      const int64_t rows = std::min(s_.query_block, s_.queries - query);
      const Rows<const T> q = At(q_, s_.q_rows, unit, query);
      const Rows<const T> grad = At(grad_, s_.out_rows, unit, query);
      const T scale = kernel_->scale_, kept = is_first ? T(0) : T(1);
      const int64_t stride = s_.ScoreStride();
      Multiply({rows, n, s_.size, q.data, q.stride, 1, keys_ + key, s_.keys, 1, scores_, stride,
                scale, T(0), scratch_});
      const MaskBlock<T> mask = MaskOf<T>(kernel_->mask_, has_mask_ ? &mask_ : nullptr, unit);
      const ScoreBlock<T> block{
          scores_, stride, query, rows, key, n, kernel_->causal_, mask.At(query, key)};
      WeightRows(block, log_sum_exp_ + unit * s_.queries + query);
      if (v_grad_ != nullptr) {
        const Rows<T> to = At(v_grad_, s_.v_rows, group, key);
        multiply_({n, s_.columns, rows, scores_, 1, stride, grad.data, grad.stride, 1, to.data,
                   to.stride, T(1), kept, scratch_});
      }
      if (q_grad_ == nullptr && k_grad_ == nullptr) return;
      Multiply({rows, n, s_.columns, grad.data, grad.stride, 1, values_ + key, s_.keys, 1, inner_,
                stride, T(1), T(0), scratch_});
      ScoreGradRows(block, means_ + shared * s_.queries + query, scale, inner_);
      if (q_grad_ != nullptr) {
        const Rows<const T> k = At(k_, s_.k_rows, group, key);
        const Rows<T> to = At(q_grad_, s_.q_rows, unit, query);
        multiply_({rows, s_.size, n, inner_, stride, 1, k.data, k.stride, 1, to.data, to.stride,
                   T(1), key == 0 ? T(0) : T(1), scratch_});
      }
      if (k_grad_ != nullptr) {
        const Rows<T> to = At(k_grad_, s_.k_rows, group, key);
        multiply_({n, s_.size, rows, inner_, 1, stride, q.data, q.stride, 1, to.data, to.stride,
                   T(1), kept, scratch_});
      }
    }

    void Multiply(const GemmCall<T>& call) const { kernel_->gemm_(call); }

    GemmFn<T> multiply_ = nullptr;  // multiplies with weights

    const AttentionGradKernelOf* kernel_;
    const AttentionShape& s_;
    const T *q_, *k_, *v_, *out_, *log_sum_exp_, *grad_;
    opwright::InputTensor mask_;
    bool has_mask_;
    T *q_grad_ = nullptr, *k_grad_ = nullptr, *v_grad_ = nullptr;
    T *scratch_, *scores_, *inner_, *means_;
    T *keys_, *values_;  // transposed
  };

  AttentionShape shape_;
  MaskLayout mask_;
  T scale_ = 1;
  bool causal_ = false;
  int32_t threads_ = 1;
  int64_t thread_items_ = 0;
  GemmFn<T> gemm_ = nullptr;
};

template <typename T>
using AttentionGradKernel = AttentionGradKernelOf<T, PlainSlots>;
template <typename T>
using PackedAttentionGradKernel = AttentionGradKernelOf<T, PackedSlots>;

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("scaled_dot_product_attention_grad", "cpu",
                             opwright_cpu::AttentionGradKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("cpu.packed_attention_grad", "cpu",
                             opwright_cpu::PackedAttentionGradKernel, float, double);
OPWRIGHT_CPU_REGISTER_WIDENED("scaled_dot_product_attention_grad",
                              opwright_cpu::AttentionGradKernel);
