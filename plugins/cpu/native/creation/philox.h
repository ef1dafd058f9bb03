// Philox 4x32-10 for many counters at a time, as specified in opwright_std/numerics/philox.py.
#ifndef OPWRIGHT_CPU_CREATION_PHILOX_H_
#define OPWRIGHT_CPU_CREATION_PHILOX_H_

#include <algorithm>
#include <cstdint>

#include <opwright/sdk.hpp>

#include "common/parallel.h"

namespace opwright_cpu {

// The number of blocks that are generated at once; their words fit into the L1 cache.
constexpr int64_t kPhiloxBlocks = 256;
constexpr int64_t kPhiloxWords = 4 * kPhiloxBlocks;

// The key that distinguishes the random words of one operator in one run from all others.
struct PhiloxKey {
  uint64_t seed;
  uint32_t stream;
  uint32_t step;
};

// Makes the key from the attributes `seed` and `stream` and, if present, the input `step`.
template <typename Attrs>
PhiloxKey KeyOf(const opwright::RunContext& ctx, uint32_t step_slot, const Attrs& attrs) {
  const int64_t step = ctx.has_input(step_slot) ? *ctx.input(step_slot).data<int64_t>() : 0;
  return PhiloxKey{static_cast<uint64_t>(attrs.seed),
                   static_cast<uint32_t>(attrs.stream.value_or(0)), static_cast<uint32_t>(step)};
}

// Writes the random words of kPhiloxBlocks blocks, starting with `first_block`.
void PhiloxWords(const PhiloxKey& key, uint64_t first_block, uint32_t* words);

// Divides n elements into parts and calls function(words, begin, end) with the random words of each
// part. Each element has `words_each` words (1 or 2). Parts begin at the start of a row of blocks,
// for any number of threads.
template <typename Function>
void ForWords(int32_t n_threads, const PhiloxKey& key, int64_t n, int64_t words_each,
              const Function& function) {
  const int64_t step = kPhiloxWords / words_each;
  ParallelFor(n_threads, n, 4096, step, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t words[kPhiloxWords];
    for (int64_t i = begin; i < end; i += step) {
      PhiloxWords(key, static_cast<uint64_t>(i * words_each / 4), words);
      function(words, i, std::min(i + step, end));
    }
  });
}

// The positions of a tensor's elements in the larger tensor that contains it, as runs of elements
// that are consecutive in both.
struct WordRuns {
  int64_t run = 1;
  uint64_t first = 0;   // the index of the first element
  uint64_t stride = 0;  // distance between the beginnings of adjacent runs
};

// Sets `runs` for a nonempty x. `numbers` are the row counts before the part, in the part, and in
// total.
inline opwright::Status FindRuns(const opwright::InputTensor& x, int64_t axis,
                                 const int64_t* numbers, WordRuns* runs) {
  const opwright::Shape shape = x.shape();
  const int64_t before = numbers[0];
  const int64_t own = numbers[1];
  const int64_t all = numbers[2];
  if (own < 1 || before < 0 || all < own || before > all - own ||
      shape.dims()[static_cast<size_t>(axis)] % own != 0) {
    return opwright::Status::Error(
        "part must be [rows_before, own_rows, all_rows], and own_rows must divide "
        "the length of axis ",
        axis, ", got [", before, ", ", own, ", ", all, "] for a length of ",
        shape.dims()[static_cast<size_t>(axis)]);
  }
  for (int64_t i = axis; i < shape.rank(); ++i) runs->run *= shape.dims()[static_cast<size_t>(i)];
  const auto row = static_cast<uint64_t>(runs->run / own);
  runs->first = static_cast<uint64_t>(before) * row;
  runs->stride = static_cast<uint64_t>(all) * row;
  return opwright::Status::Ok();
}

// Like ForWords with one word per element, but for a part of a larger tensor. The words of a part
// can begin anywhere in a block.
template <typename Function>
void ForWordsOfPart(int32_t n_threads, const PhiloxKey& key, int64_t n, const WordRuns& runs,
                    const Function& function) {
  ParallelFor(n_threads, n, 4096, kPhiloxWords, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t words[kPhiloxWords];
    for (int64_t i = begin; i < end;) {
      const int64_t within = i % runs.run;
      const uint64_t place = runs.first + static_cast<uint64_t>(i / runs.run) * runs.stride +
                             static_cast<uint64_t>(within);
      const auto skipped = static_cast<int64_t>(place % 4);
      const int64_t count = std::min({kPhiloxWords - skipped, runs.run - within, end - i});
      PhiloxWords(key, place / 4, words);
      function(words + skipped, i, i + count);
      i += count;
    }
  });
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_CREATION_PHILOX_H_
