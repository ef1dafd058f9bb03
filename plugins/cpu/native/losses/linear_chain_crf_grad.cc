// The gradient of linear_chain_crf: the marginal probability of each tag and transition, computed
// from the last step backward.
#include "common/widened.h"
#include "losses/chain.h"

namespace opwright_cpu {
namespace {

// Contributions of sequences are summed in blocks, which do not depend on the number of threads.
constexpr int64_t kMostBlocks = 16;

// Computes the share of each tag i of the previous step, and subtracts from `pairs` the share of
// each transition from i to j, which is weights[i] * exponents[i, j] * ratios[j].
template <typename T>
OPWRIGHT_CPU_CLONES void GoBack(const T* weights, const T* exponents, const T* ratios, int64_t tags,
                                T* before, T* pairs) {
  for (int64_t i = 0; i < tags; ++i) {
    const T weight = weights[i];
    const T* row = exponents + i * tags;
    T* to = pairs + i * tags;
    for (int64_t j = 0; j < tags; ++j) to[j] -= weight * row[j] * ratios[j];
  }
  for (int64_t i = 0; i < tags; ++i) {
    const T* row = exponents + i * tags;
    T lanes[16] = {};
    int64_t j = 0;
    for (; j + 16 <= tags; j += 16) {
      for (int64_t k = 0; k < 16; ++k) lanes[k] += row[j + k] * ratios[j + k];
    }
    T sum = T(0);
    for (; j < tags; ++j) sum += row[j] * ratios[j];
    for (int64_t k = 0; k < 16; ++k) sum += lanes[k];
    before[i] = sum * weights[i];
  }
}

// Slots: x (its shape), label, transition, start (its shape), end, lengths, alpha, out_grad;
// x_grad, transition_grad, start_grad, end_grad.
template <typename T>
struct LinearChainCrfGradKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    shape_ = ChainShapeOf(ctx.input(0));
    blocks_ = std::min(shape_.n, kMostBlocks);
    const int64_t squares = shape_.tags * shape_.tags;
    const int64_t count = squares + blocks_ * PartOfBlock();
    ctx.SetWorkspace(static_cast<uint64_t>(count) * sizeof(T));
    ctx.SetEstimate(2 * shape_.EstimateNs(ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    const int64_t tags = shape_.tags;
    Call c;
    OPWRIGHT_RETURN_IF_ERROR(FillLengths(ctx, 5, shape_.steps, shape_.n, &c.lengths));
    OPWRIGHT_RETURN_IF_ERROR(ReadTags(ctx.input(1), shape_, c.lengths, &c.ids));
    c.transition = ctx.input(2).template data<T>();
    c.end = DataOrNull<T>(ctx, 4);
    c.alpha = ctx.input(6).template data<T>();
    c.out_grad = ctx.input(7).template data<T>();
    c.x_grad = ctx.has_output(0) ? ctx.output(0).template data<T>() : nullptr;
    T* exponents = ctx.workspace<T>();
    ExponentsOf(c.transition, tags * tags, exponents);
    c.exponents = exponents;
    T* parts = exponents + tags * tags;
    std::fill(parts, parts + blocks_ * PartOfBlock(), T(0));
    const int64_t each = shape_.n / std::max<int64_t>(blocks_, 1) + 1;
    const int64_t grain = (shape_.Grain() + each - 1) / each;
    ParallelFor(ctx.n_threads(), blocks_, grain, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = shape_.n * block / blocks_, last = shape_.n * (block + 1) / blocks_;
        for (int64_t b = first; b < last; ++b) RunSequence(c, b, parts + block * PartOfBlock());
      }
    });
    AddBlocks(ctx, 1, parts, tags * tags);
    AddBlocks(ctx, 2, parts + tags * tags, tags);
    AddBlocks(ctx, 3, parts + tags * tags + tags, tags);
    return opwright::Status::Ok();
  }

 private:
  struct Call {
    std::vector<int64_t> lengths;
    std::vector<int64_t> ids;
    const T* transition;
    const T* exponents;  // exp(transition - maximum)
    const T* end;
    const T* alpha;
    const T* out_grad;
    T* x_grad;
  };

  // Returns the elements per block, for the gradients of transition, start and end, and four rows
  // of scratch memory.
  int64_t PartOfBlock() const { return shape_.tags * (shape_.tags + 6); }

  void RunSequence(const Call& c, int64_t b, T* pairs) const {
    const int64_t tags = shape_.tags, length = c.lengths[b];
    const int64_t* path = c.ids.data() + b * shape_.steps;
    const T* alpha = c.alpha + b * shape_.each();
    const T derivative = c.out_grad[b];
    T* start = pairs + tags * tags;
    T* end = start + tags;
    T* share = end + tags;
    T* before = share + tags;
    T* x_grad = c.x_grad == nullptr ? nullptr : c.x_grad + b * shape_.each();
    if (x_grad != nullptr) std::fill(x_grad + length * tags, x_grad + shape_.each(), T(0));
    if (length == 0) return;
    std::fill(before, before + tags, T(0));
    const T* last = c.end == nullptr ? before : c.end;
    const T* logs = alpha + (length - 1) * tags;
    const T log_total = LogSum(logs, last, 1, tags);
    for (int64_t j = 0; j < tags; ++j) {
      share[j] = derivative * opwright::functors::Exp(logs[j] + last[j] - log_total);
    }
    AddStep(share, path[length - 1], derivative, end);
    for (int64_t i = length - 1;; --i) {
      if (x_grad != nullptr) WriteStep(share, path[i], derivative, x_grad + i * tags);
      if (i == 0) break;
      StepBack(c, alpha + (i - 1) * tags, share, before, pairs);
      pairs[path[i - 1] * tags + path[i]] += derivative;
      std::swap(share, before);
    }
    AddStep(share, path[0], derivative, start);
  }

  void AddStep(const T* share, int64_t tag, T derivative, T* grad) const {
    for (int64_t j = 0; j < shape_.tags; ++j) grad[j] -= share[j];
    grad[tag] += derivative;
  }

  void WriteStep(const T* share, int64_t tag, T derivative, T* grad) const {
    for (int64_t j = 0; j < shape_.tags; ++j) grad[j] = -share[j];
    grad[tag] += derivative;
  }

  // Computes the shares of the previous step from the shares of a step; alpha holds the forward
  // sums of the previous step (as logarithms).
  void StepBack(const Call& c, const T* alpha, const T* share, T* before, T* pairs) const {
    const int64_t tags = shape_.tags;
    T* weights = pairs + tags * tags + 4 * tags;
    T* ratios = weights + tags;
    TakeExponents(alpha, tags, weights);
    SumColumns(weights, c.exponents, tags, ratios);
    bool is_exact = true;
    for (int64_t j = 0; j < tags; ++j) {
      const bool is_small = ratios[j] < T(kLeastSum);
      is_exact = is_exact && !(is_small && share[j] != T(0));
      ratios[j] = is_small ? T(0) : share[j] / ratios[j];
    }
    GoBack(weights, c.exponents, ratios, tags, before, pairs);
    if (is_exact) return;
    SumColumns(weights, c.exponents, tags, ratios);
    for (int64_t j = 0; j < tags; ++j) {
      if (!(ratios[j] < T(kLeastSum)) || share[j] == T(0)) continue;
      const T log_sum = LogSum(alpha, c.transition + j, tags, tags);
      for (int64_t i = 0; i < tags; ++i) {
        const T log = alpha[i] + c.transition[i * tags + j] - log_sum;
        const T part = share[j] * opwright::functors::Exp(log);
        before[i] += part;
        pairs[i * tags + j] -= part;
      }
    }
  }

  void AddBlocks(const opwright::RunContext& ctx, uint32_t slot, const T* parts, int64_t n) const {
    if (!ctx.has_output(slot)) return;
    T* grad = ctx.output(slot).template data<T>();
    std::fill(grad, grad + n, T(0));
    for (int64_t block = 0; block < blocks_; ++block) {
      const T* part = parts + block * PartOfBlock();
      for (int64_t i = 0; i < n; ++i) grad[i] += part[i];
    }
  }

  ChainShape shape_;
  int64_t blocks_ = 0;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("linear_chain_crf_grad", opwright_cpu::LinearChainCrfGradKernel);
