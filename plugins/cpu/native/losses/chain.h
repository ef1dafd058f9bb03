// Code shared by linear_chain_crf, its gradient and viterbi_decode: the sizes, and sums over the
// tags of the previous step.
#ifndef OPWRIGHT_CPU_LOSSES_CHAIN_H_
#define OPWRIGHT_CPU_LOSSES_CHAIN_H_

#include <opwright/functors.h>
#include <opwright/functors/sequences.h>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <opwright/sdk.hpp>

#include "common/clones.h"
#include "common/parallel.h"
#include "sequences/lengths.h"

namespace opwright_cpu {

struct ChainShape {
  int64_t n = 0;
  int64_t steps = 0;
  int64_t tags = 0;

  int64_t each() const { return steps * tags; }
  // Returns the minimum number of sequences per thread.
  int64_t Grain() const { return kElementGrain / (each() * tags + 1) + 1; }
  uint64_t EstimateNs(int32_t n_threads) const {
    return static_cast<uint64_t>(500 + n * each() * (tags + 20) / (4 * n_threads));
  }
};

inline ChainShape ChainShapeOf(const opwright::Meta& x) { return {x.dim(0), x.dim(1), x.dim(2)}; }

using opwright::functors::kLeastSum;

// Computes exp(transition - maximum) and the maximum.
template <typename T>
OPWRIGHT_CPU_CLONES T ExponentsOf(const T* transition, int64_t count, T* exponents) {
  T top = transition[0];
  for (int64_t i = 1; i < count; ++i) top = transition[i] > top ? transition[i] : top;
  for (int64_t i = 0; i < count; ++i) {
    exponents[i] = opwright::functors::Exp(transition[i] - top);
  }
  return top;
}

template <typename T>
OPWRIGHT_CPU_CLONES void TakeExponents(const T* logs, int64_t n, T* exponents) {
  for (int64_t i = 0; i < n; ++i) exponents[i] = opwright::functors::Exp(logs[i]);
}

// Computes sums[j] = sum over i of weights[i] * exponents[i, j].
template <typename T>
OPWRIGHT_CPU_CLONES void SumColumns(const T* weights, const T* exponents, int64_t tags, T* sums) {
  for (int64_t j = 0; j < tags; ++j) sums[j] = T(0);
  for (int64_t i = 0; i < tags; ++i) {
    const T weight = weights[i];
    const T* row = exponents + i * tags;
    for (int64_t j = 0; j < tags; ++j) sums[j] += weight * row[j];
  }
}

// Returns the maximum of logs[i] + column[i * stride] over the tags i.
template <typename T>
T GreatestSum(const T* logs, const T* column, int64_t stride, int64_t tags) {
  T top = logs[0] + column[0];
  for (int64_t i = 1; i < tags; ++i) top = std::max(top, logs[i] + column[i * stride]);
  return top;
}

// Returns log(sum over i of exp(logs[i] + column[i * stride])) without overflow or underflow.
template <typename T>
T LogSum(const T* logs, const T* column, int64_t stride, int64_t tags) {
  const T top = GreatestSum(logs, column, stride, tags);
  if (top == -std::numeric_limits<T>::infinity()) return top;
  T sum = T(0);
  for (int64_t i = 0; i < tags; ++i) {
    sum += opwright::functors::Exp(logs[i] + column[i * stride] - top);
  }
  return top + opwright::functors::Log(sum);
}

// Writes the tags as int64, with 0 beyond each length. Returns an error unless the tags within the
// lengths are in [0, tags).
inline opwright::Status ReadTags(const opwright::InputTensor& label, const ChainShape& shape,
                                 const std::vector<int64_t>& lengths, std::vector<int64_t>* ids) {
  const bool is_wide = label.dtype().bits == 64;
  ids->assign(static_cast<size_t>(shape.n * shape.steps), 0);
  for (int64_t b = 0; b < shape.n; ++b) {
    for (int64_t i = b * shape.steps; i < b * shape.steps + lengths[b]; ++i) {
      const int64_t id = is_wide ? static_cast<const int64_t*>(label.raw())[i]
                                 : static_cast<const int32_t*>(label.raw())[i];
      if (id < 0 || id >= shape.tags) {
        return opwright::Status::Error("label must be in [0, ", shape.tags, "), got ", id);
      }
      (*ids)[i] = id;
    }
  }
  return opwright::Status::Ok();
}

template <typename T>
const T* DataOrNull(const opwright::RunContext& ctx, uint32_t slot) {
  return ctx.has_input(slot) ? ctx.input(slot).template data<T>() : nullptr;
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_LOSSES_CHAIN_H_
