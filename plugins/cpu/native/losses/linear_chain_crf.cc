// linear_chain_crf: the forward algorithm, on probabilities, or on logarithms where they underflow.
#include "common/widened.h"
#include "losses/chain.h"

namespace opwright_cpu {
namespace {

// Subtracts the maximum from all logs and returns it, or NaN if an element is NaN.
template <typename T>
OPWRIGHT_CPU_CLONES T TakeMaximumAway(T* logs, int64_t n) {
  T top = logs[0];
  for (int64_t i = 1; i < n; ++i) {
    top = static_cast<bool>((logs[i] > top) | (logs[i] != logs[i])) ? logs[i] : top;
  }
  for (int64_t i = 0; i < n; ++i) logs[i] -= top;
  return top;
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddLogs(const T* x, const T* sums, T top, int64_t n, T* logs) {
  for (int64_t i = 0; i < n; ++i) logs[i] = opwright::functors::Log(sums[i]) + top + x[i];
}

// Slots: x, label, transition, start, end, lengths; out, alpha.
template <typename T>
struct LinearChainCrfKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    shape_ = ChainShapeOf(ctx.input(0));
    ctx.SetWorkspace(static_cast<uint64_t>(shape_.tags * shape_.tags) * sizeof(T));
    ctx.SetEstimate(shape_.EstimateNs(ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    const int64_t tags = shape_.tags;
    std::vector<int64_t> lengths, ids;
    OPWRIGHT_RETURN_IF_ERROR(FillLengths(ctx, 5, shape_.steps, shape_.n, &lengths));
    OPWRIGHT_RETURN_IF_ERROR(ReadTags(ctx.input(1), shape_, lengths, &ids));
    Weights w;
    w.transition = ctx.input(2).template data<T>();
    w.start = DataOrNull<T>(ctx, 3);
    w.end = DataOrNull<T>(ctx, 4);
    T* exponents = ctx.workspace<T>();
    w.top = ExponentsOf(w.transition, tags * tags, exponents);
    w.exponents = exponents;
    const T* x = ctx.input(0).template data<T>();
    T* out = ctx.output(0).template data<T>();
    T* alpha = ctx.output(1).template data<T>();
    ParallelFor(ctx.n_threads(), shape_.n, shape_.Grain(), 1, [&](int64_t begin, int64_t end) {
      std::vector<T> scratch(static_cast<size_t>(2 * tags));
      for (int64_t b = begin; b < end; ++b) {
        const T* from = x + b * shape_.each();
        const int64_t* path = ids.data() + b * shape_.steps;
        T* logs = alpha + b * shape_.each();
        std::fill(logs + lengths[b] * tags, logs + shape_.each(), T(0));
        const double total = LogTotal(w, from, lengths[b], scratch.data(), logs);
        out[b] = static_cast<T>(Score(w, from, path, lengths[b]) - total);
      }
    });
    return opwright::Status::Ok();
  }

 private:
  struct Weights {
    const T* transition;
    const T* start;
    const T* end;
    const T* exponents;  // exp(transition - top)
    T top;
  };

  double Score(const Weights& w, const T* x, const int64_t* path, int64_t length) const {
    if (length == 0) return 0.0;
    double score = x[path[0]];
    for (int64_t i = 1; i < length; ++i) {
      score += static_cast<double>(x[i * shape_.tags + path[i]]) +
               static_cast<double>(w.transition[path[i - 1] * shape_.tags + path[i]]);
    }
    if (w.start != nullptr) score += static_cast<double>(w.start[path[0]]);
    if (w.end != nullptr) score += static_cast<double>(w.end[path[length - 1]]);
    return score;
  }

  // Writes alpha and returns the logarithm of the sum over all paths.
  double LogTotal(const Weights& w, const T* x, int64_t length, T* scratch, T* alpha) const {
    const int64_t tags = shape_.tags;
    if (length == 0) return 0.0;
    for (int64_t j = 0; j < tags; ++j) alpha[j] = w.start == nullptr ? x[j] : x[j] + w.start[j];
    double total = TakeMaximumAway(alpha, tags);
    T* weights = scratch;
    T* sums = scratch + tags;
    for (int64_t i = 1; i < length; ++i, alpha += tags) {
      T* logs = alpha + tags;
      TakeExponents(alpha, tags, weights);
      SumColumns(weights, w.exponents, tags, sums);
      AddLogs(x + i * tags, sums, w.top, tags, logs);
      for (int64_t j = 0; j < tags; ++j) {
        if (!(sums[j] < T(kLeastSum))) continue;
        logs[j] = LogSum(alpha, w.transition + j, tags, tags) + x[i * tags + j];
      }
      total += TakeMaximumAway(logs, tags);
    }
    std::fill(sums, sums + tags, T(0));
    return total + LogSum(alpha, w.end == nullptr ? sums : w.end, 1, tags);
  }

  ChainShape shape_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("linear_chain_crf", opwright_cpu::LinearChainCrfKernel);
