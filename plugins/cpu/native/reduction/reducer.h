// Reduces any axes of an array, in stages of one run of axes each, innermost first.
#ifndef OPWRIGHT_CPU_REDUCTION_REDUCER_H_
#define OPWRIGHT_CPU_REDUCTION_REDUCER_H_

#include <cstdint>
#include <type_traits>
#include <vector>

#include "reduction/blocks.h"
#include "reduction/layout.h"

namespace opwright_cpu {

// `Rule` is one of blocks.h; it reads elements of type `In` as T. Arrays have elements: an empty
// one has no extremum.
template <typename T, typename Rule, typename In = T>
class Reducer {
 public:
  Reducer() = default;
  Reducer(const std::vector<int64_t>& dims, const std::vector<bool>& reduced);

  // Scratch memory that Run needs.
  uint64_t workspace_bytes() const { return workspace_bytes_; }

  // Equal bits for every number of threads.
  void Run(const In* x, T* out, void* workspace, int32_t n_threads) const;

 private:
  // One run of reduced axes. Where there are few results, their lines are cut into chunks, whose
  // results are reduced in turn.
  struct Stage {
    Lines lines;
    int64_t chunk = 0;  // lengths along the line of one piece; 0: not cut
    int64_t n_chunks = 1;
  };

  static Stage MakeStage(const Lines& lines);
  template <typename From>
  static void RunStage(const Stage& stage, const From* x, T* out, T* partial, int32_t n_threads);

  std::vector<Stage> stages_;
  int64_t numel_ = 0;
  int64_t partials_ = 0;  // elements
  uint64_t workspace_bytes_ = 0;
};

// In what a type is added up: signed integers as unsigned ones, in which wrapping is defined.
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

// The numbers that C++ computes with.
#define OPWRIGHT_CPU_NUMBERS \
  float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

#endif  // OPWRIGHT_CPU_REDUCTION_REDUCER_H_
