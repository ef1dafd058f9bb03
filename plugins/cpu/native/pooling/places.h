// Places of maxima, as written by max_pool2d: their range is checked before anything is written
// there, since a program may pass others.
#ifndef OPWRIGHT_CPU_POOLING_PLACES_H_
#define OPWRIGHT_CPU_POOLING_PLACES_H_

#include <atomic>
#include <cstdint>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

// The result of threads that check positions, each for its own images.
class PlaceCheck {
 public:
  explicit PlaceCheck(int64_t count) : count_(count) {}

  // Whether all of them are in [0, count); records one outside.
  bool Admits(const int32_t* places, int64_t n);

  // To be read when the threads are done.
  opwright::Status ToStatus() const;

 private:
  static constexpr int64_t kNone = INT64_MAX;  // no int32

  int64_t count_;
  std::atomic<int64_t> wrong_{kNone};
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_POOLING_PLACES_H_
