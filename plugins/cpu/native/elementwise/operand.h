// One operand of an element-wise operator, read in the order of the output's elements.
#ifndef OPWRIGHT_CPU_ELEMENTWISE_OPERAND_H_
#define OPWRIGHT_CPU_ELEMENTWISE_OPERAND_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include <opwright/sdk.hpp>

namespace opwright_cpu {

// Elements per block; a block fits into the L1 cache.
constexpr int64_t kBlock = 1024;
// Rows of up to this length are repeated in a buffer so that loops are long.
constexpr int64_t kLongestTile = kBlock / 2;
constexpr int64_t kMaxItemBytes = 8;
// The maximum number of bytes that Operand writes into a buffer.
constexpr int64_t kBufferBytes = (kBlock + kLongestTile) * kMaxItemBytes;

// Reads an operand that broadcasts to the output. If the operand's elements are not in the order of
// the output, they are copied block by block into a buffer in that order, so one loop without
// strides handles every kind of broadcasting.
class Operand {
 public:
  Operand(const opwright::Shape& out, const opwright::Shape& shape, int64_t item_bytes);

  // Returns whether the elements are in the order of the output.
  bool direct() const { return kind_ == Kind::kDirect; }

  // For the gradient of a broadcast operand: adds terms[i] to the sum of the operand element that
  // output element position + i is computed from. The operand must not be direct.
  template <typename Item>
  void AddTo(double* sums, const Item* terms, int64_t position, int64_t count) const;

  // Must be called before a thread calls Read, for blocks of at most `count` elements.
  void Begin(const void* data, int64_t count, void* buffer) const;

  // Returns elements of the operand, starting at `position`. If fewer than *count elements are
  // available, sets *count to their number, which is at least 1.
  const void* Read(const void* data, int64_t position, int64_t* count, void* buffer) const {
    if (direct()) return static_cast<const char*>(data) + position * item_bytes_;
    return ReadRepeated(data, position, count, buffer);
  }

 private:
  enum class Kind { kDirect, kScalar, kTile, kRow, kGeneral };
  struct Axis {
    int64_t size;
    int64_t stride;  // in elements, 0 if the operand repeats
  };

  const void* ReadRepeated(const void* data, int64_t position, int64_t* count, void* buffer) const;
  int64_t OffsetOfRow(int64_t row) const;
  template <typename Item>
  void Gather(const void* data, int64_t position, int64_t count, void* buffer) const;

  Kind kind_ = Kind::kDirect;
  int64_t item_bytes_;
  int64_t period_ = 1;      // length of the row, for kTile and kRow
  std::vector<Axis> axes_;  // merged as far as possible, innermost last
};

template <typename Item>
void Operand::AddTo(double* sums, const Item* terms, int64_t position, int64_t count) const {
  const Axis inner = axes_.back();
  int64_t row = position / inner.size;
  int64_t column = position % inner.size;
  for (int64_t done = 0; done < count; ++row, column = 0) {
    double* to = sums + OffsetOfRow(row) + column * inner.stride;
    const int64_t part = std::min(inner.size - column, count - done);
    for (int64_t i = 0; i < part; ++i) to[i * inner.stride] += static_cast<double>(terms[done + i]);
    done += part;
  }
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ELEMENTWISE_OPERAND_H_
