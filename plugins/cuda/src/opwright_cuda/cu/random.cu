// uniform, normal, randint and dropout. This file is compiled without contraction, since the
// specification rounds every product. A thread generates one block of random words at a time and
// computes the elements of the block.
#include "kernel.h"
#include "opwright/functors/box_muller.h"
#include "philox.h"

using namespace opwright_cuda;

// The number of elements per block of random words; 16-bit types are drawn in float.
template <typename T>
constexpr int kDrawn = IsSame<T, double>::value ? 2 : 4;

// Writes the elements of a block, which may extend beyond the end of `out`.
template <typename T, typename Out>
OW_INLINE void WriteBlock(const Out* values, T* out, int64_t block, int64_t n) {
  constexpr int kMany = kDrawn<T>;
  const int64_t first = block * kMany;
  if (first + kMany <= n) {
    Vector<T, kMany> stored;
#pragma unroll
    for (int k = 0; k < kMany; ++k) stored.at[k] = Store<T>(values[k]);
    reinterpret_cast<Vector<T, kMany>*>(out)[block] = stored;
  } else {
#pragma unroll
    for (int k = 0; k < kMany; ++k) {
      if (first + k < n) out[first + k] = Store<T>(values[k]);
    }
  }
}

// The arguments of Philox for one block.
struct BlockKey {
  uint64_t seed;
  uint32_t stream;
  uint32_t step;
  uint64_t number;
};

OW_INLINE RandomBlock WordsOf(const BlockKey& key) {
  return Philox(key.seed, key.stream, key.step, key.number);
}

struct UniformNumbers {
  template <typename T>
  static OW_INLINE void DrawAt(const BlockKey& key, T* numbers) {
    Draw(WordsOf(key), numbers);
  }
  static OW_INLINE void Draw(const RandomBlock& block, float* numbers) {
#pragma unroll
    for (int k = 0; k < 4; ++k) numbers[k] = static_cast<float>(block.words[k] >> 8) * 0x1p-24f;
  }
  static OW_INLINE void Draw(const RandomBlock& block, double* numbers) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      numbers[k] = static_cast<double>(LongWord(block, k) >> 11) * 0x1p-53;
    }
  }
};

struct NormalNumbers {
  template <typename T>
  static OW_INLINE void DrawAt(const BlockKey& key, T* numbers) {
    Draw(WordsOf(key), numbers);
  }
  template <typename T>
  static OW_INLINE void Draw(const RandomBlock& block, T* numbers) {
    using opwright::functors::WordPair;
#pragma unroll
    for (int j = 0; j < kDrawn<T> / 2; ++j) {
      const auto pair = opwright::functors::BoxMuller(WordPair<T>::Read(block.words, j));
      numbers[2 * j] = pair.first;
      numbers[2 * j + 1] = pair.second;
    }
  }
};

// Values beyond two standard deviations are redrawn from much later blocks; see box_muller.py.
struct TruncatedNumbers {
  template <typename T>
  static OW_INLINE bool IsOutside(T number) {
    return number > 2 || number < -2;
  }
  template <typename T>
  static OW_INLINE void DrawAt(BlockKey key, T* numbers) {
    NormalNumbers::Draw(WordsOf(key), numbers);
    for (bool any = true; any;) {
      any = false;
      for (int k = 0; k < kDrawn<T>; ++k) any = any || IsOutside(numbers[k]);
      if (!any) break;
      key.number += uint64_t{1} << 48;
      T again[kDrawn<T>];
      NormalNumbers::Draw(WordsOf(key), again);
      for (int k = 0; k < kDrawn<T>; ++k) {
        if (IsOutside(numbers[k])) numbers[k] = again[k];
      }
    }
  }
};

// Computes out = number * scale + shift.
template <typename Numbers, typename T>
__global__ void draw(T* out, int64_t n, RandomKey key, Compute<T> scale, Compute<T> shift) {
  constexpr int kMany = kDrawn<T>;
  const uint32_t step = StepOf(key);
  const int64_t n_blocks = (n + kMany - 1) / kMany;
  for (int64_t block = GlobalIndex(); block < n_blocks; block += GridThreads()) {
    Compute<T> numbers[kMany];
    Numbers::DrawAt(BlockKey{key.seed, key.stream, step, static_cast<uint64_t>(block)}, numbers);
#pragma unroll
    for (int k = 0; k < kMany; ++k) numbers[k] = numbers[k] * scale + shift;
    WriteBlock(numbers, out, block, n);
  }
}

// Keeps the elements whose random word is at least `threshold`, which is 2^32 if no element is
// kept. A dropped element is set to 0, since infinity times 0 would be NaN. `x` may be `out`.
template <typename T>
__global__ void dropout(const T* x, T* out, bool* mask, int64_t n, RandomKey key,
                        uint64_t threshold, Compute<T> scale) {
  const uint32_t step = StepOf(key);
  const int64_t n_blocks = (n + 3) / 4;
  for (int64_t number = GlobalIndex(); number < n_blocks; number += GridThreads()) {
    const RandomBlock block = Philox(key.seed, key.stream, step, static_cast<uint64_t>(number));
    const int64_t first = number * 4;
    Vector<T, 4> values;
    if (first + 4 <= n) {
      values = reinterpret_cast<const Vector<T, 4>*>(x)[number];
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) values.at[k] = x[first + k < n ? first + k : first];
    }
    Vector<bool, 4> kept;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      kept.at[k] = block.words[k] >= threshold;
      values.at[k] = Store<T>(kept.at[k] ? Load(values.at[k]) * scale : Compute<T>(0));
    }
    if (first + 4 <= n) {
      reinterpret_cast<Vector<T, 4>*>(out)[number] = values;
      reinterpret_cast<Vector<bool, 4>*>(mask)[number] = kept;
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (first + k >= n) break;
        out[first + k] = values.at[k];
        mask[first + k] = kept.at[k];
      }
    }
  }
}

// Writes 1 if the random word of an element is below floor(x * 2^32), otherwise 0. Values outside
// [0, 1] are reported.
template <typename T>
__global__ void bernoulli(const T* x, T* out, int64_t n, RandomKey key, Fault* fault,
                          int32_t text) {
  const uint32_t step = StepOf(key);
  const int64_t n_blocks = (n + 3) / 4;
  for (int64_t number = GlobalIndex(); number < n_blocks; number += GridThreads()) {
    const RandomBlock block = Philox(key.seed, key.stream, step, static_cast<uint64_t>(number));
    for (int64_t i = number * 4; i < n && i < number * 4 + 4; ++i) {
      const auto chance = static_cast<double>(Load(x[i]));
      const bool is_right = chance >= 0.0 && chance <= 1.0;
      if (!is_right) Report(fault, text, 0);
      // The conversion truncates, which equals floor here.
      const auto least = static_cast<uint64_t>(is_right ? chance * 4294967296.0 : 0.0);
      out[i] = Store<T>(block.words[i % 4] < least ? 1.0f : 0.0f);
    }
  }
}

// The positions of the elements of x in a larger tensor. Runs of `run` elements are contiguous in
// both tensors. `numbers` are the row counts before x, in x, and in total; `length` is the axis
// length.
struct PartKey {
  const int64_t* numbers;
  int64_t run;
  int64_t length;
};

// The random words for a part, one word per element.
struct WordsOfPart {
  uint64_t first;
  uint64_t stride;
  int64_t run;
  uint64_t seed;
  uint32_t stream;
  uint32_t step;

  // Reports a fault and returns false if the numbers are inconsistent.
  OW_INLINE bool SetUp(const RandomKey& key, const PartKey& part, Fault* fault, int32_t text) {
    const int64_t before = part.numbers[0];
    const int64_t own = part.numbers[1];
    const int64_t all = part.numbers[2];
    if (own < 1 || before < 0 || all < own || before > all - own || part.length % own != 0) {
      Report(fault, text, 0);
      return false;
    }
    run = part.run;
    first = static_cast<uint64_t>(before) * static_cast<uint64_t>(run / own);
    stride = static_cast<uint64_t>(all) * static_cast<uint64_t>(run / own);
    seed = key.seed;
    stream = key.stream;
    step = StepOf(key);
    return true;
  }
  OW_INLINE uint32_t At(int64_t i) const {
    const uint64_t place =
        first + static_cast<uint64_t>(i / run) * stride + static_cast<uint64_t>(i % run);
    const auto block = Philox(seed, stream, step, place / 4);
    // Words are selected by conditions, because an index would place them in local memory.
    const uint32_t low = place % 2 == 0 ? block.words[0] : block.words[1];
    const uint32_t high = place % 2 == 0 ? block.words[2] : block.words[3];
    return place % 4 < 2 ? low : high;
  }
};

// Like dropout, for a part of a larger tensor. One thread processes each element, since its word
// may be anywhere in a block.
template <typename T>
__global__ void dropout_part(const T* x, T* out, bool* mask, int64_t n, RandomKey key, PartKey part,
                             uint64_t threshold, Compute<T> scale, Fault* fault, int32_t text) {
  WordsOfPart words;
  if (!words.SetUp(key, part, fault, text)) return;
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const bool kept = words.At(i) >= threshold;
    out[i] = Store<T>(kept ? Load(x[i]) * scale : Compute<T>(0));
    mask[i] = kept;
  }
}

// Like bernoulli, for a part of a larger tensor.
template <typename T>
__global__ void bernoulli_part(const T* x, T* out, int64_t n, RandomKey key, PartKey part,
                               Fault* fault, int32_t text, int32_t part_text) {
  WordsOfPart words;
  if (!words.SetUp(key, part, fault, part_text)) return;
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const auto chance = static_cast<double>(Load(x[i]));
    const bool is_right = chance >= 0.0 && chance <= 1.0;
    if (!is_right) Report(fault, text, 0);
    const auto least = static_cast<uint64_t>(is_right ? chance * 4294967296.0 : 0.0);
    out[i] = Store<T>(words.At(i) < least ? 1.0f : 0.0f);
  }
}

// Returns the upper 64 bits of a product.
OW_INLINE uint64_t MultiplyHigh(uint64_t a, uint64_t b) {
  const uint64_t a_low = a & 0xffffffffu;
  const uint64_t b_low = b & 0xffffffffu;
  const uint64_t middle = (a >> 32) * b_low + (a_low * b_low >> 32);
  const uint64_t other = a_low * (b >> 32) + (middle & 0xffffffffu);
  return (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
}

template <typename T>
__global__ void randint(T* out, int64_t n, RandomKey key, uint64_t range, uint64_t low) {
  const uint32_t step = StepOf(key);
  const int64_t n_blocks = (n + 1) / 2;
  for (int64_t number = GlobalIndex(); number < n_blocks; number += GridThreads()) {
    const RandomBlock block = Philox(key.seed, key.stream, step, static_cast<uint64_t>(number));
    for (int k = 0; k < 2 && number * 2 + k < n; ++k) {
      out[number * 2 + k] = static_cast<T>(MultiplyHigh(LongWord(block, k), range) + low);
    }
  }
}
