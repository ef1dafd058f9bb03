// Checks the range of the positions of maxima, which max_pool2d writes. Positions are checked
// before they are used, since a program may pass invalid positions.
#ifndef OPWRIGHT_CPU_POOLING_PLACES_H_
#define OPWRIGHT_CPU_POOLING_PLACES_H_

#include <atomic>
#include <cstdint>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

// Combines the results of threads that check positions, each for its own images.
class PlaceCheck {
 public:
  explicit PlaceCheck(int64_t count) : count_(count) {}

  // Returns whether all positions are in [0, count), and records a position that is not.
  bool Admits(const int32_t* places, int64_t n);

  // Returns an error if a position was out of range. Must be called after all threads have
  // finished.
  opwright::Status ToStatus() const;

 private:
  static constexpr int64_t kNone = INT64_MAX;  // outside the range of int32

  int64_t count_;
  std::atomic<int64_t> wrong_{kNone};
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_POOLING_PLACES_H_
