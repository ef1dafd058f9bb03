// Reads a record written by Python, number by number, and rejects damaged records.
#ifndef OPWRIGHT_CUDA_NUMBERS_H_
#define OPWRIGHT_CUDA_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include <opwright/sdk/status.hpp>

namespace opwright_cuda {

// Throws opwright::Exception if the record is invalid.
class Numbers {
 public:
  explicit Numbers(const std::vector<int64_t>& numbers) : numbers_(numbers) {}

  size_t position() const { return next_; }
  // Returns the numbers that have been read since a position.
  std::vector<int64_t> ReadSince(size_t position) const {
    const auto at = [this](size_t i) { return numbers_.begin() + static_cast<ptrdiff_t>(i); };
    return {at(position), at(next_)};
  }
  bool done() const { return next_ == numbers_.size(); }
  int64_t Next() {
    if (done()) throw opwright::Exception("cuda.launch: the record ends in the middle");
    return numbers_[next_++];
  }
  // Reads a number below `bound`.
  template <typename T>
  T Next(uint64_t bound) {
    const int64_t number = Next();
    if (number < 0 || static_cast<uint64_t>(number) >= bound) {
      throw opwright::Exception("cuda.launch: a number of the record must be in [0, ", bound,
                                "), got ", number);
    }
    return static_cast<T>(number);
  }
  // Reads the offset of an 8-byte pointer in constants of `n_bytes` bytes.
  size_t NextPlace(uint64_t n_bytes) {
    const auto place = Next<size_t>(n_bytes < 7 ? 0 : n_bytes - 7);
    if (place % 8 != 0) {
      throw opwright::Exception(
          "cuda.launch: the offset of a pointer must be a multiple of 8, got ", place);
    }
    return place;
  }

 private:
  const std::vector<int64_t>& numbers_;
  size_t next_ = 0;
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_NUMBERS_H_
