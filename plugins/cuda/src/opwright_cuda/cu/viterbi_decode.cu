// viterbi_decode: computes the best path to each tag step by step, then traces the best path back.
#include "chain.h"

using namespace opwright_cuda;

// The scratch memory holds two rows of tags. `from` holds the best previous tags of all steps for
// each block. The first of equal sums wins, and NaN is greater than every number.
template <typename T>
__global__ void viterbi_decode(T* out, int64_t* path, const T* x, Chain<T> chain, int32_t* from,
                               Room room) {
  using C = Compute<T>;
  const int64_t tags = chain.tags;
  C* best = room.OfBlock<C>();
  C* reached = best + tags;
  int32_t* const before = from + blockIdx.x * chain.steps * tags;
  for (int64_t b = blockIdx.x; b < chain.n; b += gridDim.x) {
    const int64_t length = chain.lengths.Of(b, chain.steps);
    const T* const of_sequence = x + b * chain.steps * tags;
    int64_t* const to = path + b * chain.steps;
    for (int64_t i = length + threadIdx.x; i < chain.steps; i += blockDim.x) to[i] = 0;
    if (length == 0) {
      if (threadIdx.x == 0) out[b] = Store<T>(C(0));
      continue;
    }
    for (int64_t j = threadIdx.x; j < tags; j += blockDim.x) {
      best[j] = Load(of_sequence[j]) + chain.Start(j);
    }
    __syncthreads();
    for (int64_t t = 1; t < length; ++t) {
      for (int64_t j = threadIdx.x; j < tags; j += blockDim.x) {
        C most = best[0] + Load(chain.transition[j]);
        int32_t tag = 0;
        for (int64_t i = 1; i < tags; ++i) {
          const C sum = best[i] + Load(chain.transition[i * tags + j]);
          if (!(sum > most) && !(sum != sum && most == most)) continue;
          most = sum;
          tag = static_cast<int32_t>(i);
        }
        reached[j] = most + Load(of_sequence[t * tags + j]);
        before[t * tags + j] = tag;
      }
      __syncthreads();
      C* const old = best;
      best = reached;
      reached = old;
    }
    Indexed<C> last = ArgMaxOf<C>::Identity();
    for (int64_t j = threadIdx.x; j < tags; j += blockDim.x) {
      last = ArgMaxOf<C>()(last, Indexed<C>{best[j] + chain.End(j), j});
    }
    last = BlockReduce(last, ArgMaxOf<C>());
    if (threadIdx.x == 0) {
      out[b] = Store<T>(last.value);
      int64_t tag = last.index;
      for (int64_t t = length - 1; t > 0; --t) {
        to[t] = tag;
        tag = before[t * tags + tag];
      }
      to[0] = tag;
    }
    __syncthreads();  // before the next sequence starts
  }
}
