// The gradients of cdist, computed from vector differences, which are not stored, as in cdist.
#include <algorithm>

#include "algebra/attributes.h"
#include "algebra/differences.h"
#include "algebra/stacks.h"
#include "common/parallel.h"
#include "common/widened.h"

namespace opwright_cpu {
namespace {

// Slots: x, y, out, out_grad; x_grad?, y_grad?.
template <typename T>
struct CdistGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const CdistAttrs& attrs) {
    if (attrs.p != 1 && attrs.p != 2) {
      return opwright::Status::Refused("supports only p=1 and p=2, got p=", attrs.p);
    }
    const opwright::Shape out = ctx.input(2).shape();
    n_ = out.dim(-2);
    m_ = out.dim(-1);
    k_ = ctx.input(0).dim(-1);
    chunks_ = (k_ + kLanes<T> - 1) / kLanes<T>;
    stacks_ = out.numel() == 0 ? 0 : out.numel() / (n_ * m_);
    for (uint32_t side = 0; side < 2; ++side) {
      offsets_[side] = Stacks(out, ctx.input(side).shape());
      is_whole_[side] = ctx.input(side).numel() == stacks_ * (side == 0 ? n_ : m_) * k_;
    }
    const int64_t work = out.numel() * chunks_ * kLanes<T>;
    threads_ = static_cast<int32_t>(
        std::clamp<int64_t>(work / (32 * 1024), 1, std::max(ctx.n_threads(), 1)));
    ctx.SetWorkspace(static_cast<uint64_t>(threads_ * WorkspaceSize()) * sizeof(T));
    ctx.SetEstimate(100 + static_cast<uint64_t>(work / 4 / threads_));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const CdistAttrs& attrs) const {
    const T* x = ctx.input(0).template data<T>();
    const T* y = ctx.input(1).template data<T>();
    const T* out = ctx.input(2).template data<T>();
    const T* grad = ctx.input(3).template data<T>();
    for (uint32_t side = 0; side < 2; ++side) {
      if (!ctx.has_output(side)) continue;
      T* to = ctx.output(side).template data<T>();
      std::fill_n(to, ctx.output(side).numel(), T(0));
      const Side<T> whole = side == 0 ? Side<T>{x, y, to, n_, m_, m_, 1, out, grad}
                                      : Side<T>{y, x, to, m_, n_, 1, m_, out, grad};
      if (attrs.p == 2) {
        AddSide<true>(whole, side, ctx);
      } else {
        AddSide<false>(whole, side, ctx);
      }
    }
    return opwright::Status::Ok();
  }

 private:
  int64_t WorkspaceSize() const { return (kOthers + 2 * kOwnBlock) * chunks_ * kLanes<T>; }

  // If several matrices of a batch share a vector, a single thread sums its gradients.
  template <bool kSquares>
  void AddSide(const Side<T>& whole, uint32_t side, const opwright::RunContext& ctx) const {
    const int64_t blocks = (whole.n_own + kOwnBlock - 1) / kOwnBlock;
    const bool is_whole = is_whole_[side];
    const int64_t units = is_whole ? stacks_ * blocks : stacks_ > 0 ? blocks : 0;
    Parallel(threads_, [&](int32_t thread, int32_t n_threads) {
      const Part part = PartOf(units, 1, thread, n_threads);
      T* workspace = ctx.workspace<T>() + thread * WorkspaceSize();
      for (int64_t unit = part.begin; unit < part.end; ++unit) {
        const int64_t first = unit % blocks * kOwnBlock;
        const int64_t begin = is_whole ? unit / blocks : 0;
        for (int64_t stack = begin; stack < (is_whole ? begin + 1 : stacks_); ++stack) {
          Side<T> s = whole;
          const int64_t offset = offsets_[side].OffsetOf(stack) + first * k_;
          s.own += offset;
          s.grad += offset;
          s.other += offsets_[1 - side].OffsetOf(stack);
          s.out += stack * n_ * m_ + first * s.own_step;
          s.out_grad += stack * n_ * m_ + first * s.own_step;
          s.n_own = std::min(kOwnBlock, s.n_own - first);
          AddBlock<kSquares>(s, workspace);
        }
      }
    });
  }

  template <bool kSquares>
  void AddBlock(const Side<T>& s, T* workspace) const {
    const int64_t step = chunks_ * kLanes<T>;
    T* own = workspace;
    T* sums = own + kOwnBlock * step;
    T* others = sums + kOwnBlock * step;
    T weights[kOwnBlock][kOthers] = {};
    std::fill_n(own, 2 * kOwnBlock * step, T(0));
    LayOut(s.own, s.n_own, k_, chunks_, own);
    for (int64_t begin = 0; begin < s.n_other; begin += kOthers) {
      const int64_t count = std::min(kOthers, s.n_other - begin);
      LayOut(s.other + begin * k_, count, k_, chunks_, others);
      FillWeights<kSquares>(s, begin, count, weights);
      for (int64_t i = 0; i < s.n_own; i += kOwnRows) {
        for (int64_t lane = 0; lane < step; lane += kLanes<T>) {
          AddLanes<T, kSquares>(own + i * step + lane, others + lane, count, step, weights + i,
                                sums + i * step + lane);
        }
      }
    }
    for (int64_t i = 0; i < s.n_own; ++i) {
      for (int64_t p = 0; p < k_; ++p) s.grad[i * k_ + p] += sums[i * step + p];
    }
  }

  template <bool kSquares>
  void FillWeights(const Side<T>& s, int64_t begin, int64_t count, T (*weights)[kOthers]) const {
    T distances[kOwnBlock][kOthers], grads[kOwnBlock][kOthers];
    Read(s, s.out + begin * s.other_step, count, distances);
    Read(s, s.out_grad + begin * s.other_step, count, kSquares ? grads : weights);
    for (int64_t i = 0; kSquares && i < s.n_own; ++i) {
      if (Weigh(count, distances[i], grads[i], weights[i]) == 0) continue;
      AddExtremes(s, i, begin, count, distances[i], grads[i], weights[i]);
    }
  }

  // Reads one element of `from` per pair of vectors, in memory order.
  static void Read(const Side<T>& s, const T* from, int64_t count, T (*to)[kOthers]) {
    for (int64_t i = 0; s.own_step != 1 && i < s.n_own; ++i) {
      for (int64_t j = 0; j < count; ++j) to[i][j] = from[i * s.own_step + j * s.other_step];
    }
    for (int64_t j = 0; s.own_step == 1 && j < count; ++j) {
      for (int64_t i = 0; i < s.n_own; ++i) to[i][j] = from[i + j * s.other_step];
    }
  }

  // Adds the gradients of the pairs that Weigh reported as out of range, one difference at a time.
  void AddExtremes(const Side<T>& s, int64_t own, int64_t begin, int64_t count, const T* distances,
                   const T* grads, const T* weights) const {
    for (int64_t j = 0; j < count; ++j) {
      if (weights[j] != 0 || grads[j] == 0 || distances[j] == 0) continue;
      for (int64_t p = 0; p < k_; ++p) {
        const T apart = s.own[own * k_ + p] - s.other[(begin + j) * k_ + p];
        s.grad[own * k_ + p] += apart / distances[j] * grads[j];
      }
    }
  }

  int64_t n_ = 0, m_ = 0, k_ = 0, chunks_ = 0, stacks_ = 0;
  Stacks offsets_[2];
  bool is_whole_[2] = {true, true};
  int32_t threads_ = 1;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("cdist_grad", "cpu", opwright_cpu::CdistGradKernel, float, double);
