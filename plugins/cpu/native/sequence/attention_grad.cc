// The gradient of scaled_dot_product_attention: the weights of a block are computed again from the
// scores and log_sum_exp.
#include <algorithm>

#include "common/parallel.h"
#include "common/widened.h"
#include "sequence/attention.h"

namespace opwright_cpu {
namespace {

// Slots: q, k, v, mask, out, log_sum_exp, out_grad; q_grad, k_grad, v_grad.
template <typename T>
struct AttentionGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AttentionAttrs& attrs) {
    shape_ = MakeAttentionShape(ctx.input(0), ctx.input(1), ctx.input(2), attrs.causal);
    scale_ = ScaleOf<T>(attrs, shape_.size);
    causal_ = attrs.causal;
    if (ctx.has_input(3)) mask_ = MaskLayout(ctx.input(3), ctx.input(5));
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

  opwright::Status Run(const opwright::RunContext& ctx, const AttentionAttrs&) const {
    if (shape_.units == 0) return opwright::Status::Ok();
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(shape_.units / shape_.share, 1, thread, n_threads);
      Worker worker(this, ctx, ctx.workspace<T>() + thread * thread_items_);
      for (int64_t group = part.begin; group < part.end; ++group) worker.RunGroup(group);
    });
    return opwright::Status::Ok();
  }

 private:
  // One thread: what it reads and writes, and its scratch memory.
  class Worker {
   public:
    Worker(const AttentionGradKernel* kernel, const opwright::RunContext& ctx, T* memory)
        : kernel_(kernel),
          s_(kernel->shape_),
          q_(ctx.input(0).template data<T>()),
          k_(ctx.input(1).template data<T>()),
          v_(ctx.input(2).template data<T>()),
          out_(ctx.input(4).template data<T>()),
          log_sum_exp_(ctx.input(5).template data<T>()),
          grad_(ctx.input(6).template data<T>()),
          mask_(ctx.input(ctx.has_input(3) ? 3 : 0)),
          has_mask_(ctx.has_input(3)),
          scratch_(memory),
          scores_(memory + kGemmScratch),
          inner_(scores_ + kQueryBlock * kKeyBlock),
          means_(inner_ + kQueryBlock * kKeyBlock),
          keys_(means_ + s_.share * s_.queries),
          values_(keys_ + s_.keys * s_.size) {
      T** grads[] = {&q_grad_, &k_grad_, &v_grad_};
      for (uint32_t slot = 0; slot < 3; ++slot) {
        if (ctx.has_output(slot)) *grads[slot] = ctx.output(slot).template data<T>();
      }
    }

    // One after the other the units that share keys and values, whose gradients are added up.
    void RunGroup(int64_t group) {
      const int64_t rows = s_.share * s_.queries, first = group * rows;
      TransposeRows(k_ + group * s_.keys * s_.size, s_.keys, s_.size, keys_, s_.keys);
      TransposeRows(v_ + group * s_.keys * s_.columns, s_.keys, s_.columns, values_, s_.keys);
      DotRows(out_ + first * s_.columns, grad_ + first * s_.columns, s_.columns, rows, s_.columns,
              T(1), means_);
      if (s_.keys == 0 && q_grad_ != nullptr) {
        std::fill(q_grad_ + first * s_.size, q_grad_ + (first + rows) * s_.size, T(0));
      }
      for (int64_t key = 0; key < s_.keys; key += kKeyBlock) {
        const int64_t n = std::min(kKeyBlock, s_.keys - key);
        const int64_t seen = kernel_->causal_ ? std::clamp<int64_t>(s_.queries - key, 0, n) : n;
        for (int64_t shared = 0; shared < s_.share; ++shared) RunQueries(group, shared, key, seen);
        // Keys that no query sees.
        FillZero(group * s_.keys + key + seen, n - seen);
      }
    }

   private:
    // The blocks of queries from the last one on, which sees all keys that any of them sees: it is
    // the first to write their gradients, or the gradients are 0 where there is no query.
    void RunQueries(int64_t group, int64_t shared, int64_t key, int64_t n) {
      const bool causal = kernel_->causal_;
      for (int64_t block = s_.n_blocks(); block-- > 0;) {
        const int64_t query = block * s_.query_block;
        const int64_t end = std::min(query + s_.query_block, s_.queries);
        if (causal && end <= key) break;
        const bool is_first = shared == 0 && block == s_.n_blocks() - 1;
        RunBlock(group, shared, query, key, causal ? std::min(n, end - key) : n, is_first);
      }
      if (s_.queries == 0) FillZero(group * s_.keys + key, n);
    }

    void FillZero(int64_t row, int64_t n) {
      if (k_grad_ != nullptr) std::fill_n(k_grad_ + row * s_.size, n * s_.size, T(0));
      if (v_grad_ != nullptr) std::fill_n(v_grad_ + row * s_.columns, n * s_.columns, T(0));
    }

    void RunBlock(int64_t group, int64_t shared, int64_t query, int64_t key, int64_t n,
                  bool is_first) {
      const int64_t unit = group * s_.share + shared;
      const int64_t rows = std::min(s_.query_block, s_.queries - query);
      const int64_t row = unit * s_.queries + query, key_row = group * s_.keys + key;
      const T* q = q_ + row * s_.size;
      const T* grad = grad_ + row * s_.columns;
      const T scale = kernel_->scale_, kept = is_first ? T(0) : T(1);
      const int64_t stride = s_.ScoreStride();
      Multiply({rows, n, s_.size, q, s_.size, 1, keys_ + key, s_.keys, 1, scores_, stride, scale,
                T(0), scratch_});
      const MaskBlock<T> mask = MaskOf<T>(kernel_->mask_, has_mask_ ? &mask_ : nullptr, unit);
      const ScoreBlock<T> block{
          scores_, stride, query, rows, key, n, kernel_->causal_, mask.At(query, key)};
      WeightRows(block, log_sum_exp_ + row);
      if (v_grad_ != nullptr) {
        Multiply({n, s_.columns, rows, scores_, 1, stride, grad, s_.columns, 1,
                  v_grad_ + key_row * s_.columns, s_.columns, T(1), kept, scratch_});
      }
      if (q_grad_ == nullptr && k_grad_ == nullptr) return;
      Multiply({rows, n, s_.columns, grad, s_.columns, 1, values_ + key, s_.keys, 1, inner_, stride,
                T(1), T(0), scratch_});
      ScoreGradRows(block, means_ + shared * s_.queries + query, scale, inner_);
      if (q_grad_ != nullptr) {
        Multiply({rows, s_.size, n, inner_, stride, 1, k_ + key_row * s_.size, s_.size, 1,
                  q_grad_ + row * s_.size, s_.size, T(1), key == 0 ? T(0) : T(1), scratch_});
      }
      if (k_grad_ != nullptr) {
        Multiply({n, s_.size, rows, inner_, 1, stride, q, s_.size, 1, k_grad_ + key_row * s_.size,
                  s_.size, T(1), kept, scratch_});
      }
    }

    void Multiply(const GemmCall<T>& call) const { kernel_->gemm_(call); }

    const AttentionGradKernel* kernel_;
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

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("scaled_dot_product_attention_grad", "cpu",
                             opwright_cpu::AttentionGradKernel, float, double);
OPWRIGHT_CPU_REGISTER_WIDENED("scaled_dot_product_attention_grad",
                              opwright_cpu::AttentionGradKernel);
