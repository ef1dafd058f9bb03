// scaled_dot_product_attention: a softmax over blocks of keys, whose maximum and sum are kept up to
// date. Dao et al., FlashAttention, 2022.
#include <algorithm>
#include <limits>

#include <opwright/functors.h>

#include "common/parallel.h"
#include "common/widened.h"
#include "sequence/attention.h"

namespace opwright_cpu {
namespace {

// Multiplications that a second thread needs to be worth waking it.
constexpr int64_t kThreadWork = 64 * 1024;

// Slots: q, k, v, mask; out, log_sum_exp.
template <typename T>
struct AttentionKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const AttentionAttrs& attrs) {
    shape_ = MakeAttentionShape(ctx.input(0), ctx.input(1), ctx.input(2));
    scale_ = ScaleOf<T>(attrs, shape_.size);
    causal_ = attrs.causal;
    if (ctx.has_input(3)) mask_ = MaskLayout(ctx.input(3), ctx.output(1));
    gemm_ = BestGemm<T>();
    const int64_t work = shape_.Multiplications();
    const int64_t most = std::min(shape_.units * shape_.n_blocks(), work / kThreadWork);
    threads_ = static_cast<int32_t>(std::max<int64_t>(1, std::min<int64_t>(most, ctx.n_threads())));
    thread_items_ = kGemmScratch + kQueryBlock * (kKeyBlock + 3) + shape_.size * shape_.keys;
    ctx.SetWorkspace(static_cast<uint64_t>(threads_ * thread_items_) * sizeof(T));
    ctx.SetEstimate(static_cast<uint64_t>(100 + work / (32 * threads_)));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const AttentionAttrs&) const {
    const int64_t n_blocks = shape_.n_blocks();
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(shape_.units * n_blocks, 1, thread, n_threads);
      Worker worker{this, ctx, ctx.workspace<T>() + thread * thread_items_};
      for (int64_t i = part.begin; i < part.end; ++i) {
        worker.RunBlock(i / n_blocks, i % n_blocks * kQueryBlock);
      }
    });
    return opwright::Status::Ok();
  }

 private:
  // Queries so few that to transpose the keys would take as long as to multiply with them.
  static constexpr int64_t kFewQueries = 3;

  // One thread: what it reads and writes, and its scratch memory.
  struct Worker {
    const AttentionKernel* kernel;
    const opwright::RunContext& ctx;
    T* memory;
    int64_t transposed_unit = -1;

    void RunBlock(int64_t unit, int64_t query) {
      const AttentionShape& s = kernel->shape_;
      T* scores = memory + kGemmScratch;
      T* maximum = scores + kQueryBlock * kKeyBlock;
      T *total = maximum + kQueryBlock, *factor = total + kQueryBlock;
      const int64_t rows = std::min(kQueryBlock, s.queries - query);
      T* out = ctx.output(0).template data<T>() + (unit * s.queries + query) * s.columns;
      std::fill(maximum, maximum + rows, -std::numeric_limits<T>::infinity());
      std::fill(total, total + rows, T(0));
      const int64_t keys = kernel->causal_ ? std::min(s.keys, query + rows) : s.keys;
      const bool has_mask = ctx.has_input(3);
      const opwright::InputTensor mask = ctx.input(has_mask ? 3 : 0);
      const MaskBlock<T> of_unit = MaskOf<T>(kernel->mask_, has_mask ? &mask : nullptr, unit);
      for (int64_t key = 0; key < keys; key += kKeyBlock) {
        const int64_t n = std::min(kKeyBlock, keys - key);
        Score(unit, query, rows, key, n, scores);
        const ScoreBlock<T> block{
            scores, query, rows, key, n, kernel->causal_, of_unit.At(query, key)};
        ExponentiateRows(block, maximum, total, factor);
        if (key > 0) ScaleRows(factor, rows, s.columns, out);
        AddValues(unit, rows, key, n, scores, out);
      }
      Finish(unit, query, rows, keys, maximum, total, out);
    }

    // scores = scale * q k^T.
    void Score(int64_t unit, int64_t query, int64_t rows, int64_t key, int64_t n, T* scores) {
      const AttentionShape& s = kernel->shape_;
      const T* q = ctx.input(0).template data<T>() + (unit * s.queries + query) * s.size;
      const T* k = ctx.input(1).template data<T>() + unit / s.share * s.keys * s.size;
      if (s.queries <= kFewQueries) {
        for (int64_t i = 0; i < rows; ++i) {
          DotRows(k + key * s.size, q + i * s.size, 0, n, s.size, kernel->scale_,
                  scores + i * kKeyBlock);
        }
        return;
      }
      T* transposed = memory + kGemmScratch + kQueryBlock * (kKeyBlock + 3);
      if (transposed_unit != unit / s.share) {
        TransposeRows(k, s.keys, s.size, transposed, s.keys);
        transposed_unit = unit / s.share;
      }
      kernel->gemm_({rows, n, s.size, q, s.size, 1, transposed + key, s.keys, 1, scores, kKeyBlock,
                     kernel->scale_, T(0), memory});
    }

    void AddValues(int64_t unit, int64_t rows, int64_t key, int64_t n, const T* weights, T* out) {
      const AttentionShape& s = kernel->shape_;
      const T* v = ctx.input(2).template data<T>() + (unit / s.share * s.keys + key) * s.columns;
      kernel->gemm_({rows, s.columns, n, weights, kKeyBlock, 1, v, s.columns, 1, out, s.columns,
                     T(1), key == 0 ? T(0) : T(1), memory});
    }

    void Finish(int64_t unit, int64_t query, int64_t rows, int64_t keys, const T* maximum, T* total,
                T* out) {
      const int64_t columns = kernel->shape_.columns;
      T* log_sum_exp = ctx.output(1).template data<T>() + unit * kernel->shape_.queries + query;
      if (keys == 0) std::fill(out, out + rows * columns, T(0));
      for (int64_t i = 0; i < rows; ++i) {
        log_sum_exp[i] = maximum[i] + opwright::functors::Log(total[i]);
        total[i] = total[i] == T(0) ? T(0) : T(1) / total[i];  // 0: no key was seen
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
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("scaled_dot_product_attention", "cpu", opwright_cpu::AttentionKernel,
                             float, double);
OPWRIGHT_CPU_REGISTER_WIDENED("scaled_dot_product_attention", opwright_cpu::AttentionKernel);
