// viterbi_decode: computes the best path to each tag step by step, then traces the best one back.
#include "common/widened.h"
#include "losses/chain.h"

namespace opwright_cpu {
namespace {

// For each j, computes the maximum of best[i] + transition[i, j] and the first i that attains it.
// NaN is greater than every number.
template <typename T>
OPWRIGHT_CPU_CLONES void TakeBest(const T* best, const T* transition, int64_t tags, T* reached,
                                  int32_t* from) {
  for (int64_t j = 0; j < tags; ++j) {
    reached[j] = best[0] + transition[j];
    from[j] = 0;
  }
  for (int64_t i = 1; i < tags; ++i) {
    const T before = best[i];
    const T* row = transition + i * tags;
    for (int64_t j = 0; j < tags; ++j) {
      const T sum = before + row[j];
      const bool is_better = (sum > reached[j]) | ((sum != sum) & (reached[j] == reached[j]));
      reached[j] = is_better ? sum : reached[j];
      from[j] = is_better ? static_cast<int32_t>(i) : from[j];
    }
  }
}

// Slots: x, transition, start, end, lengths; out, path.
template <typename T>
struct ViterbiDecodeKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    shape_ = ChainShapeOf(ctx.input(0));
    ctx.SetEstimate(shape_.EstimateNs(ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    std::vector<int64_t> lengths;
    OPWRIGHT_RETURN_IF_ERROR(FillLengths(ctx, 4, shape_.steps, shape_.n, &lengths));
    const Weights w{ctx.input(1).template data<T>(), DataOrNull<T>(ctx, 2), DataOrNull<T>(ctx, 3)};
    const T* x = ctx.input(0).template data<T>();
    T* out = ctx.output(0).template data<T>();
    int64_t* path = ctx.output(1).template data<int64_t>();
    ParallelFor(ctx.n_threads(), shape_.n, shape_.Grain(), 1, [&](int64_t begin, int64_t end) {
      std::vector<T> best(static_cast<size_t>(2 * shape_.tags));
      std::vector<int32_t> from(static_cast<size_t>(shape_.each()));
      for (int64_t b = begin; b < end; ++b) {
        out[b] = Decode(w, x + b * shape_.each(), lengths[b], best.data(), from.data(),
                        path + b * shape_.steps);
      }
    });
    return opwright::Status::Ok();
  }

 private:
  struct Weights {
    const T* transition;
    const T* start;
    const T* end;
  };

  T Decode(const Weights& w, const T* x, int64_t length, T* best, int32_t* from,
           int64_t* path) const {
    const int64_t tags = shape_.tags;
    std::fill(path + length, path + shape_.steps, int64_t{0});
    if (length == 0) return T(0);
    T* reached = best + tags;
    for (int64_t j = 0; j < tags; ++j) best[j] = w.start == nullptr ? x[j] : x[j] + w.start[j];
    for (int64_t i = 1; i < length; ++i) {
      TakeBest(best, w.transition, tags, reached, from + i * tags);
      for (int64_t j = 0; j < tags; ++j) reached[j] += x[i * tags + j];
      std::swap(best, reached);
    }
    if (w.end != nullptr) {
      for (int64_t j = 0; j < tags; ++j) best[j] += w.end[j];
    }
    int64_t tag = 0;
    for (int64_t j = 1; j < tags && best[tag] == best[tag]; ++j) {
      if (best[j] > best[tag] || best[j] != best[j]) tag = j;
    }
    const T score = best[tag];
    for (int64_t i = length - 1;; --i) {
      path[i] = tag;
      if (i == 0) return score;
      tag = from[i * tags + tag];
    }
  }

  ChainShape shape_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_CPU_REGISTER_FLOATS("viterbi_decode", opwright_cpu::ViterbiDecodeKernel);
