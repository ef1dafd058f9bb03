// linear_chain_crf: the forward algorithm, on probabilities, or on logarithms where they underflow.
#include "chain.h"

using namespace opwright_cuda;
using opwright::functors::kLeastSum;

// A thread processes one column, so adjacent threads read adjacent elements.
template <typename T>
__global__ void take_exponents(Compute<T>* values, Compute<T>* tops, const T* transition,
                               int64_t tags) {
  using C = Compute<T>;
  for (int64_t j = GlobalIndex(); j < tags; j += GridThreads()) {
    C top = Lowest<C>();
    for (int64_t i = 0; i < tags; ++i) {
      top = functors::Maximum(top, Load(transition[i * tags + j]));
    }
    if (top == Lowest<C>()) top = C(0);  // no tag can precede this tag
    for (int64_t i = 0; i < tags; ++i) {
      values[i * tags + j] = functors::Exp(Load(transition[i * tags + j]) - top);
    }
    tops[j] = top;
  }
}

// Returns the score of the tags to all threads.
template <typename T>
OW_INLINE double ScoreOf(const Chain<T>& chain, const T* x, const Labels& labels, int64_t first,
                         int64_t length) {
  double score = 0;
  for (int64_t t = threadIdx.x; t < length; t += blockDim.x) {
    const int64_t tag = TagAt(labels, first + t);
    score += static_cast<double>(Load(x[t * chain.tags + tag]));
    if (t == 0) score += static_cast<double>(chain.Start(tag));
    if (t == length - 1) score += static_cast<double>(chain.End(tag));
    if (t == 0) continue;
    const int64_t before = TagAt(labels, first + t - 1);
    score += static_cast<double>(Load(chain.transition[before * chain.tags + tag]));
  }
  return BlockSum(score);
}

// The scratch memory holds three rows of tags.
template <typename T>
__global__ void linear_chain_crf(T* out, T* alpha, const T* x, Chain<T> chain, Labels labels,
                                 Exponents<Compute<T>> exponents, Room room) {
  using C = Compute<T>;
  const int64_t tags = chain.tags, each = chain.steps * tags;
  C* const logs = room.OfBlock<C>();  // forward logarithms minus their maximum
  C* const weights = logs + tags;     // their exponentials
  C* const next = weights + tags;     // each element belongs to one thread
  for (int64_t b = blockIdx.x; b < chain.n; b += gridDim.x) {
    const int64_t length = chain.lengths.Of(b, chain.steps);
    const T* const from = x + b * each;
    T* const to = alpha + b * each;
    for (int64_t i = length * tags + threadIdx.x; i < each; i += blockDim.x) to[i] = Store<T>(C(0));
    const double score = ScoreOf(chain, from, labels, b * chain.steps, length);
    double total = 0;
    for (int64_t t = 0; t < length; ++t) {
      C top = Lowest<C>();
      for (int64_t j = threadIdx.x; j < tags; j += blockDim.x) {
        C log = chain.Start(j);
        if (t > 0) {
          const C sum = SumOfColumn(weights, exponents.values, tags, j);
          log = sum < C(kLeastSum) ? LogSumOfColumn(logs, chain.transition, tags, j)
                                   : functors::Log(sum) + exponents.tops[j];
        }
        next[j] = log + Load(from[t * tags + j]);
        top = functors::Maximum(top, next[j]);
      }
      top = BlockMax(top);
      __syncthreads();  // all threads have read the results of the previous step
      for (int64_t j = threadIdx.x; j < tags; j += blockDim.x) {
        logs[j] = next[j] - top;
        weights[j] = functors::Exp(logs[j]);
        to[t * tags + j] = Store<T>(logs[j]);
      }
      total += static_cast<double>(top);
      __syncthreads();
    }
    if (length > 0) total += static_cast<double>(LogSumOfEnds(chain, logs));
    if (threadIdx.x == 0) out[b] = Store<T>(length > 0 ? score - total : 0.0);
  }
}
