// Fully connected layers in training that fit into the caches: out = activation(x w + b). The
// weight is [inputs, outputs] or, if it is transposed, [outputs, inputs].
#include <algorithm>

#include "common/parallel.h"
#include "fully_connected/activation.h"
#include "fully_connected/attributes.h"
#include "fully_connected/partition.h"
#include "gemm/gemm.h"
#include "gemm/vector_products.h"

namespace opwright_cpu {
namespace {

using opwright::Status;

template <typename T>
struct FcKernel {
  static void Configure(opwright::KernelOptions& options) {
    options.library = "native";
    options.priority = 60;
    options.by_threads = true;  // each thread's product contributes to the sums
  }

  Status Prepare(opwright::PrepareContext& ctx, const FcAttrs& attrs) {
    OPWRIGHT_RETURN_IF_ERROR(ParseActivation(attrs.activation, &activation_));
    const opwright::Meta weight = ctx.input(1);
    is_turned_ = attrs.transpose_weight;
    k_ = weight.dim(is_turned_ ? 1 : 0);
    n_ = weight.dim(is_turned_ ? 0 : 1);
    m_ = n_ == 0 ? 0 : ctx.output(0).numel() / n_;
    if (k_ * n_ > kMostWeights || m_ > kMostRows) {
      return Status::Refused("supports at most ", kMostRows, " rows and ", kMostWeights,
                             " weights, got ", m_, " rows and ", k_ * n_, " weights");
    }
    if (sizeof(T) == sizeof(float) && ctx.packable(1) && k_ * n_ >= kLeastPacked) {
      return Status::Refused("supports constant weights only below ", kLeastPacked,
                             " elements, got ", k_ * n_);
    }
    threads_ = is_turned_ ? ThreadsFor(m_, k_, n_, ctx.n_threads())
                          : ThreadsFor(m_, n_, k_, ctx.n_threads());
    gemm_ = BestGemm<T>();
    const int64_t own = threads_ > 1 && !is_turned_ ? m_ * n_ * threads_ : 0;
    const int64_t columns = IsByColumns() ? m_ * n_ : 0;
    ctx.SetWorkspace(static_cast<uint64_t>(own + columns + kGemmScratch * threads_) * sizeof(T));
    ctx.SetEstimate(EstimateProduct(m_, n_, k_, sizeof(T), threads_) +
                    static_cast<uint64_t>(m_ * n_ / threads_));
    return Status::Ok();
  }

  Status Run(const opwright::RunContext& ctx, const FcAttrs&) const {
    const T* x = ctx.input(0).data<T>();
    const T* w = ctx.input(1).data<T>();
    const T* bias = ctx.has_input(2) ? ctx.input(2).data<T>() : nullptr;
    T* out = ctx.output(0).data<T>();
    T* workspace = ctx.workspace<T>();
    if (m_ * n_ == 0) return Status::Ok();
    if (threads_ == 1) {
      Multiply(x, w, {0, is_turned_ ? n_ : k_}, workspace, workspace + kGemmScratch, out);
      FinishRows(activation_, out, 1, 0, bias, m_, n_, out);
      return Status::Ok();
    }
    if (is_turned_) {
      RunTurned(x, w, bias, workspace, out);
      return Status::Ok();
    }
    T* parts = workspace + kGemmScratch * threads_;
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part rows = OwnedRows(k_, thread, n_threads);
      Multiply(x, w, rows, workspace + kGemmScratch * thread, nullptr, parts + m_ * n_ * thread);
    });
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part batch = PartOf(m_, 1, thread, n_threads);
      FinishRows(activation_, parts + batch.begin * n_, n_threads, m_ * n_, bias,
                 batch.end - batch.begin, n_, out + batch.begin * n_);
    });
    return Status::Ok();
  }

 private:
  // Returns whether out^T = w x^T is computed: for few rows, transposing x and out is cheaper than
  // transposing w.
  bool IsByColumns() const {
    constexpr int64_t kFewest = 12, kMost = 96;
    return is_turned_ && m_ >= kFewest && m_ < kMost && n_ > m_;
  }

  // Rows of a weight [outputs, inputs] yield complete columns of the output, without partial sums.
  void RunTurned(const T* x, const T* w, const T* bias, T* workspace, T* out) const {
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part owned = OwnedRows(n_, thread, n_threads);
      T* columns = workspace + kGemmScratch * threads_ + owned.begin * m_;
      Multiply(x, w, owned, workspace + kGemmScratch * thread, columns, out);
    });
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part batch = PartOf(m_, 1, thread, n_threads);
      T* rows = out + batch.begin * n_;
      FinishRows(activation_, rows, 1, 0, bias, batch.end - batch.begin, n_, rows);
    });
  }

  // Computes the contribution of some weight rows to x w or, if the weight is transposed, the
  // columns of x w that these rows determine.
  void Multiply(const T* x, const T* w, Part owned, T* scratch, T* columns, T* out) const {
    const int64_t begin = owned.begin, end = owned.end;
    if (is_turned_ && begin >= end) return;
    if (m_ <= kFewRows && is_turned_) {
      for (int64_t i = 0; i < m_; ++i) {
        MatrixTimesVector(w + begin * k_, k_, x + i * k_, end - begin, k_, out + i * n_ + begin);
      }
      return;
    }
    if (IsByColumns()) {
      gemm_(
          {end - begin, m_, k_, w + begin * k_, k_, 1, x, 1, k_, columns, m_, T(1), T(0), scratch});
      Turn(columns, end - begin, out + begin);
      return;
    }
    if (m_ <= kFewRows) {
      for (int64_t i = 0; i < m_; ++i) {
        VectorTimesMatrix(x + i * k_ + begin, w + begin * n_, n_, end - begin, n_, out + i * n_);
      }
      return;
    }
    GemmCall<T> call{};
    call.m = m_;
    call.n = is_turned_ ? end - begin : n_;
    call.k = is_turned_ ? k_ : end - begin;
    call.a = is_turned_ ? x : x + begin;
    call.a_row = k_;
    call.a_col = 1;
    call.b = w + begin * (is_turned_ ? k_ : n_);
    call.b_row = is_turned_ ? 1 : n_;
    call.b_col = is_turned_ ? k_ : 1;
    call.c = is_turned_ ? out + begin : out;
    call.ldc = n_;
    call.alpha = T(1);
    call.scratch = scratch;
    gemm_(call);
  }

  // Writes `count` columns of out, which `columns` stores as rows, one cache line at a time.
  void Turn(const T* columns, int64_t count, T* out) const {
    constexpr int64_t kBlock = 16;
    for (int64_t first = 0; first < count; first += kBlock) {
      const int64_t end = std::min(first + kBlock, count);
      for (int64_t i = 0; i < m_; ++i) {
        for (int64_t j = first; j < end; ++j) out[i * n_ + j] = columns[j * m_ + i];
      }
    }
  }

  Activation activation_ = Activation::kNone;
  int64_t m_ = 0;
  int64_t n_ = 0;
  int64_t k_ = 0;
  int32_t threads_ = 1;
  bool is_turned_ = false;  // the weight is [outputs, inputs]
  GemmFn<T> gemm_ = nullptr;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("fc", "cpu", opwright_cpu::FcKernel, float, double);
