// The gradient of linear_chain_crf: marginals of tags and transitions, from the last step backward.
#include "chain.h"

using namespace opwright_cuda;
using opwright::functors::kLeastSum;

// The gradients of transition, start and end for each thread block.
template <typename C>
struct Parts {
  C* begin;
  int64_t n;

  OW_INLINE C* Pairs(int64_t tags) const { return begin + blockIdx.x * tags * (tags + 2); }
};

// Computes `before`, the marginals of the previous step, from `share`, the marginals of a step.
// alpha holds the forward sums of the previous step (as logarithms). Subtracts the marginal of each
// transition from `pairs`, and adds `loss_grad` to the transition from `tag` to `next_tag`. A warp
// processes a row, so adjacent lanes read adjacent elements.
template <typename T>
OW_INLINE void StepBack(const Chain<T>& chain, const T* alpha, Exponents<Compute<T>> exponents,
                        Compute<T>* rows, const Compute<T>* share, Compute<T>* before,
                        Compute<T>* pairs, int64_t tag, int64_t next_tag, Compute<T> loss_grad) {
  using C = Compute<T>;
  const int64_t tags = chain.tags;
  C* const logs = rows;
  C* const weights = logs + tags;
  C* const ratios = weights + tags;
  C* const log_sums = ratios + tags;  // NaN if the ratio is valid
  for (int64_t i = threadIdx.x; i < tags; i += blockDim.x) {
    logs[i] = Load(alpha[i]);
    weights[i] = functors::Exp(logs[i]);
  }
  __syncthreads();
  for (int64_t j = threadIdx.x; j < tags; j += blockDim.x) {
    const C sum = SumOfColumn(weights, exponents.values, tags, j);
    const bool is_small = sum < C(kLeastSum);
    ratios[j] = is_small ? C(0) : share[j] / sum;
    log_sums[j] = FloatOfBits(0x7fc00000u);
    if (is_small && share[j] != C(0)) {
      log_sums[j] = LogSumOfColumn(logs, chain.transition, tags, j);
    }
  }
  __syncthreads();
  const int n_warps = static_cast<int>(blockDim.x) / kWarp;
  for (int64_t i = WarpIndex(); i < tags; i += n_warps) {
    C sum = C(0);
    for (int64_t j = LaneIndex(); j < tags; j += kWarp) {
      const int64_t pair = i * tags + j;
      const C log_sum = log_sums[j];
      const C part =
          log_sum != log_sum
              ? weights[i] * exponents.values[pair] * ratios[j]
              : share[j] * functors::Exp(logs[i] + Load(chain.transition[pair]) - log_sum);
      sum += part;
      pairs[pair] += (i == tag && j == next_tag ? loss_grad : C(0)) - part;
    }
    sum = WarpSum(sum);
    if (LaneIndex() == 0) before[i] = sum;
  }
  __syncthreads();
}

// `parts` must be initialized with 0; `x_grad` may be null. The scratch memory holds six rows of
// tags.
template <typename T>
__global__ void linear_chain_crf_grad(T* x_grad, Parts<Compute<T>> parts, const T* alpha,
                                      const T* out_grad, Chain<T> chain, Labels labels,
                                      Exponents<Compute<T>> exponents, Room room) {
  using C = Compute<T>;
  const int64_t tags = chain.tags, each = chain.steps * tags;
  C* const pairs = parts.Pairs(tags);
  C* const starts = pairs + tags * tags;
  C* const ends = starts + tags;
  C* share = room.OfBlock<C>();
  C* before = share + tags;
  C* const rows = before + tags;
  const int64_t last_one = chain.n * (blockIdx.x + 1) / parts.n;
  for (int64_t b = chain.n * blockIdx.x / parts.n; b < last_one; ++b) {
    const int64_t length = chain.lengths.Of(b, chain.steps), first = b * chain.steps;
    T* const to = x_grad == nullptr ? nullptr : x_grad + b * each;
    for (int64_t i = length * tags + threadIdx.x; i < each && to != nullptr; i += blockDim.x) {
      to[i] = Store<T>(C(0));
    }
    if (length == 0) continue;
    const C loss_grad = Load(out_grad[b]);
    const T* const last = alpha + b * each + (length - 1) * tags;
    int64_t tag = TagAt(labels, first + length - 1);
    for (int64_t j = threadIdx.x; j < tags; j += blockDim.x) before[j] = Load(last[j]);
    const C log_total = LogSumOfEnds(chain, before);
    for (int64_t j = threadIdx.x; j < tags; j += blockDim.x) {
      share[j] = loss_grad * functors::Exp(before[j] + chain.End(j) - log_total);
      ends[j] += (j == tag ? loss_grad : C(0)) - share[j];
    }
    for (int64_t t = length - 1;; --t) {
      __syncthreads();
      C* const sums = t == 0 ? starts : nullptr;
      for (int64_t j = threadIdx.x; j < tags; j += blockDim.x) {
        const C grad = (j == tag ? loss_grad : C(0)) - share[j];
        if (to != nullptr) to[t * tags + j] = Store<T>(grad);
        if (sums != nullptr) sums[j] += grad;
      }
      if (t == 0) break;
      const int64_t tag_before = TagAt(labels, first + t - 1);
      StepBack(chain, alpha + b * each + (t - 1) * tags, exponents, rows, share, before, pairs,
               tag_before, tag, loss_grad);
      C* const old = share;
      share = before;
      before = old;
      tag = tag_before;
    }
    __syncthreads();  // before the next sequence starts
  }
}

// Sums the results of the blocks in a fixed order, with one thread per element.
template <typename T>
__global__ void add_parts(T* out, const Compute<T>* parts, int64_t stride, int64_t n_parts,
                          int64_t n) {
  using C = Compute<T>;
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    C sum = C(0);
    for (int64_t part = 0; part < n_parts; ++part) sum += parts[part * stride + i];
    out[i] = Store<T>(sum);
  }
}
