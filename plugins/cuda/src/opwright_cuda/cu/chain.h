// Code shared by linear_chain_crf, its gradient and viterbi_decode. A block processes one sequence
// at a time; its threads divide the tags.
#ifndef OPWRIGHT_CUDA_CHAIN_H_
#define OPWRIGHT_CUDA_CHAIN_H_

#include "functions.h"
#include "labels.h"
#include "lengths.h"
#include "reduce.h"
#include "room.h"

#include "opwright/functors/sequences.h"

namespace opwright_cuda {

// The sizes of sequences [n, steps, tags], the transition weights, and the start and end weights,
// which may be null.
template <typename T>
struct Chain {
  const T* transition;
  const T* start;
  const T* end;
  Lengths lengths;
  int64_t n;
  int64_t steps;
  int64_t tags;

  OW_INLINE Compute<T> Start(int64_t tag) const {
    return start == nullptr ? Compute<T>(0) : Load(start[tag]);
  }
  OW_INLINE Compute<T> End(int64_t tag) const {
    return end == nullptr ? Compute<T>(0) : Load(end[tag]);
  }
};

// The values exp(transition - top), where `tops` holds the maximum of each column.
template <typename C>
struct Exponents {
  const C* values;
  const C* tops;
};

// Returns the sum over i of weights[i] * exponents[i, j].
template <typename C>
OW_INLINE C SumOfColumn(const C* weights, const C* exponents, int64_t tags, int64_t j) {
  C sum = C(0);
  for (int64_t i = 0; i < tags; ++i) sum += weights[i] * exponents[i * tags + j];
  return sum;
}

// Returns log(sum over i of exp(logs[i] + transition[i, j])) with the precision of logarithms.
template <typename T>
OW_INLINE Compute<T> LogSumOfColumn(const Compute<T>* logs, const T* transition, int64_t tags,
                                    int64_t j) {
  using C = Compute<T>;
  C top = Lowest<C>();
  for (int64_t i = 0; i < tags; ++i) {
    top = functors::Maximum(top, logs[i] + Load(transition[i * tags + j]));
  }
  if (top == Lowest<C>()) return top;
  C sum = C(0);
  for (int64_t i = 0; i < tags; ++i) {
    sum += functors::Exp(logs[i] + Load(transition[i * tags + j]) - top);
  }
  return top + functors::Log(sum);
}

// Returns the tag of a step. A tag out of range is reported and replaced by 0.
OW_INLINE int64_t TagAt(const Labels& labels, int64_t place) {
  const int64_t tag = labels.At(place);
  return tag < 0 ? 0 : tag;
}

// Returns log(sum of exp(logs + end)) in all threads.
template <typename T>
OW_INLINE Compute<T> LogSumOfEnds(const Chain<T>& chain, const Compute<T>* logs) {
  using C = Compute<T>;
  C top = Lowest<C>();
  for (int64_t j = threadIdx.x; j < chain.tags; j += blockDim.x) {
    top = functors::Maximum(top, logs[j] + chain.End(j));
  }
  top = BlockMax(top);
  if (top == Lowest<C>()) return top;
  C sum = C(0);
  for (int64_t j = threadIdx.x; j < chain.tags; j += blockDim.x) {
    sum += functors::Exp(logs[j] + chain.End(j) - top);
  }
  return top + functors::Log(BlockSum(sum));
}

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_CHAIN_H_
