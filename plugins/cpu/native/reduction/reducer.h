// Reduces any axes of an array in stages, one run of adjacent axes per stage, innermost first.
#ifndef OPWRIGHT_CPU_REDUCTION_REDUCER_H_
#define OPWRIGHT_CPU_REDUCTION_REDUCER_H_

#include <cstdint>
#include <type_traits>
#include <vector>

#include "reduction/blocks.h"
#include "reduction/layout.h"

namespace opwright_cpu {

namespace reducer {

// Rows narrower than this are merged into longer rows to fill vectors.
constexpr int64_t kNarrow = 64;

// The loops of a rule for elements of one type.
struct Loops {
  int64_t item_bytes;  // size of an input element
  // Reduces each row to one result.
  void (*rows)(const void* x, int64_t n_rows, int64_t length, void* out);
  // Computes results [begin, end) out of outer * inner results.
  void (*columns)(const void* x, int64_t length, int64_t inner, int64_t begin, int64_t end,
                  void* out);
};

// The parts of a reduction that do not depend on the rule: its axes and its memory.
class Stages {
 public:
  Stages() = default;
  Stages(const std::vector<int64_t>& dims, const std::vector<bool>& reduced, int64_t result_bytes);

  bool is_empty() const { return stages_.empty(); }  // nothing is reduced
  int64_t numel() const { return numel_; }
  uint64_t workspace_bytes() const { return workspace_bytes_; }

  // `first` reduces elements of the array, and `rest` reduces results of earlier stages.
  void Run(const Loops& first, const Loops& rest, const void* x, void* out, void* workspace,
           int32_t n_threads) const;

 private:
  // One run of reduced axes. If there are few results, their lines are split into chunks, whose
  // results are reduced in turn.
  struct Stage {
    Lines lines;
    int64_t chunk = 0;  // length of a chunk along the line; 0 if lines are not split
    int64_t n_chunks = 1;
  };
  struct Step;

  static Stage MakeStage(const Lines& lines);
  static void RunStage(const Stage& stage, const Step& step, int32_t n_threads);
  static void RunChunks(const Stage& stage, const Step& step, int32_t n_threads);

  std::vector<Stage> stages_;
  int64_t numel_ = 0;
  int64_t partials_ = 0;  // maximum number of chunk results in a stage
  int64_t result_bytes_ = 0;
  uint64_t workspace_bytes_ = 0;
};

}  // namespace reducer

// `Rule` is a rule of blocks.h; it reads elements of type `In` as T. Arrays must not be empty,
// since their extrema would be undefined.
template <typename T, typename Rule, typename In = T>
class Reducer {
 public:
  Reducer() = default;
  Reducer(const std::vector<int64_t>& dims, const std::vector<bool>& reduced)
      : stages_(dims, reduced, sizeof(T)) {}

  // Returns the size in bytes of the scratch memory that Run needs.
  uint64_t workspace_bytes() const { return stages_.workspace_bytes(); }

  // Results are bitwise identical for every number of threads.
  void Run(const In* x, T* out, void* workspace, int32_t n_threads) const;

 private:
  reducer::Stages stages_;
};

// Integers are summed and multiplied as uint64_t, because overflow of unsigned integers is defined.
template <typename T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;

// The type in which values are summed. Integers use an unsigned type, whose overflow is defined.
template <typename T, bool = std::is_integral_v<T>>
struct SumTypeOf {
  using Type = T;
};
template <typename T>
struct SumTypeOf<T, true> {
  using Type = std::make_unsigned_t<T>;
};
template <typename T>
using SumType = typename SumTypeOf<T>::Type;

}  // namespace opwright_cpu

// The numeric dtypes that are C++ types.
#define OPWRIGHT_CPU_NUMBERS \
  float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

#endif  // OPWRIGHT_CPU_REDUCTION_REDUCER_H_
