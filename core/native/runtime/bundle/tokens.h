// Reads bundle tokens: strings, and numbers that may depend on the batch size.
// The bytes are not trusted; each count is checked against the remaining bytes before memory is
// allocated.
#ifndef OPWRIGHT_RUNTIME_TOKENS_H_
#define OPWRIGHT_RUNTIME_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "runtime/status.h"

namespace opwright {

// The number step * n + base for batch size n.
struct Affine {
  int64_t step = 0;
  int64_t base = 0;
};

class Tokens {
 public:
  // Each error begins with `who`. The bytes must outlive this object.
  Tokens(const uint8_t* data, size_t size, std::string who)
      : data_(data), size_(size), who_(std::move(who)) {}

  void set_batch(int64_t batch) { batch_ = batch; }
  int64_t batch() const { return batch_; }

  Affine ReadAffine();
  // Reads a number for the current batch size.
  int64_t Int();
  template <typename Number>
  Number Int(int64_t least, int64_t most, const char* what) {
    const int64_t value = Int();
    if (value < least || value > most) {
      Fail(what, " must be in [", least, ", ", most, "], got ", value);
    }
    return static_cast<Number>(value);
  }
  // Reads the number of items that follow; each item has at least one token.
  size_t Count() { return Int<size_t>(0, static_cast<int64_t>(left()), "a count"); }
  bool Flag() { return Int<int>(0, 1, "a flag") != 0; }
  uint32_t Id() { return Int<uint32_t>(0, std::numeric_limits<uint32_t>::max(), "a number"); }
  std::string Text();
  double Double();
  // Returns the next bytes without converting them.
  const uint8_t* Take(size_t size);

  size_t left() const { return size_ - at_; }
  const std::string& who() const { return who_; }
  template <typename... Parts>
  [[noreturn]] void Fail(const Parts&... parts) const {
    Throw(ErrorKind::kFormat, who_, ": ", parts..., ", at byte ", at_,
          "; the file is damaged, or from another program: write it again");
  }

 private:
  uint8_t Byte();
  uint64_t Varint();
  int64_t Signed();
  void Spend(size_t text_bytes);

  const uint8_t* data_;
  size_t size_;
  std::string who_;
  size_t at_ = 0;
  int64_t batch_ = 0;
  // Limits the total length of strings, because a few bytes can repeat a long string.
  uint64_t text_bytes_left_ = uint64_t{64} << 20;
  std::vector<std::string> texts_;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_TOKENS_H_
