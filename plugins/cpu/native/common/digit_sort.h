// A stable radix sort, used by sort, argsort and unique.
#ifndef OPWRIGHT_CPU_COMMON_DIGIT_SORT_H_
#define OPWRIGHT_CPU_COMMON_DIGIT_SORT_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <opwright/sdk.hpp>
#include <type_traits>
#include <utility>

namespace opwright_cpu {

// Lines shorter than this are sorted by comparisons, which is faster than counting digits.
inline constexpr int64_t kTiny = 32;
// Lines shorter than this are sorted with digits of one byte, so fewer counts must be cleared
// and summed.
inline constexpr int64_t kShort = 512;
inline constexpr int kDigitBits = 11;
inline constexpr int64_t kDigits = int64_t{1} << kDigitBits;

template <size_t kBytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using Type = uint8_t;
};
template <>
struct UnsignedOf<2> {
  using Type = uint16_t;
};
template <>
struct UnsignedOf<4> {
  using Type = uint32_t;
};
template <>
struct UnsignedOf<8> {
  using Type = uint64_t;
};

// Maps an element to an unsigned integer with the same order. The bits of a negative float are
// inverted; both zeros have the same key, and NaN has the greatest key.
template <typename T, typename Key>
Key KeyOf(T x) {
  constexpr Key kSign = static_cast<Key>(Key(1) << (8 * sizeof(Key) - 1));
  if constexpr (std::is_same_v<T, opwright::Float16> || std::is_same_v<T, opwright::BFloat16>) {
    constexpr Key kInfinity = std::is_same_v<T, opwright::Float16> ? 0x7c00 : 0x7f80;
    const auto magnitude = static_cast<Key>(x.bits & 0x7fff);
    if (magnitude > kInfinity) return std::numeric_limits<Key>::max();
    if (magnitude == 0) return kSign;
    return static_cast<Key>((x.bits & kSign) != 0 ? ~x.bits : x.bits | kSign);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (x != x) return std::numeric_limits<Key>::max();
    const T number = x == T(0) ? T(0) : x;
    Key bits;
    std::memcpy(&bits, &number, sizeof(bits));
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<Key>(static_cast<Key>(x) ^ kSign);
  } else {
    return x;
  }
}

template <typename Key>
struct Keyed {
  Key key;
  // The position has as many bits as the key, but at least 32, so that items are small.
  std::conditional_t<sizeof(Key) == 8, int64_t, uint32_t> position;
};

// Performs one stable pass over `n` elements.
template <typename Key>
void SortByDigit(const Keyed<Key>* from, int64_t n, int shift, const int64_t* counts,
                 Keyed<Key>* to) {
  int64_t starts[kDigits];
  int64_t start = 0;
  for (int64_t digit = 0; digit < kDigits; ++digit) {
    starts[digit] = start;
    start += counts[digit];
  }
  for (int64_t i = 0; i < n; ++i) to[starts[(from[i].key >> shift) & (kDigits - 1)]++] = from[i];
}

// Sorts by one byte after another and skips bytes that are equal in all keys. Only digits between
// the least and the greatest that can occur are counted; these are few if the keys differ little.
template <typename Key>
Keyed<Key>* SortByBytes(Keyed<Key>* items, Keyed<Key>* other, int64_t n) {
  static_assert(kShort <= std::numeric_limits<uint16_t>::max(), "places fit into 16 bits");
  Key differing = 0;
  for (int64_t i = 1; i < n; ++i) differing |= static_cast<Key>(items[i].key ^ items[0].key);
  for (int shift = 0; shift < 8 * static_cast<int>(sizeof(Key)); shift += 8) {
    auto below = static_cast<unsigned>(differing >> shift) & 0xffu;
    if (below == 0) continue;
    for (int half : {1, 2, 4}) below |= below >> half;  // sets all bits below the highest set bit
    const auto some = static_cast<unsigned>(items[0].key >> shift) & 0xffu;
    const unsigned least = some & ~below, greatest = some | below;
    uint16_t places[256];
    std::fill(places + least, places + greatest + 1, uint16_t{0});
    for (int64_t i = 0; i < n; ++i) ++places[(items[i].key >> shift) & 0xffu];
    uint16_t place = 0;
    for (unsigned digit = least; digit <= greatest; ++digit) {
      const uint16_t count = places[digit];
      places[digit] = place;
      place = static_cast<uint16_t>(place + count);
    }
    for (int64_t i = 0; i < n; ++i) other[places[(items[i].key >> shift) & 0xffu]++] = items[i];
    std::swap(items, other);
  }
  return items;
}

// Sorts n items; returns whichever of the two buffers contains the result.
template <typename Key>
Keyed<Key>* SortKeyed(Keyed<Key>* items, Keyed<Key>* other, int64_t n) {
  if (n < kTiny) {
    std::sort(items, items + n, [](const Keyed<Key>& a, const Keyed<Key>& b) {
      return a.key != b.key ? a.key < b.key : a.position < b.position;
    });
    return items;
  }
  if (n < kShort) return SortByBytes(items, other, n);
  constexpr int kBits = 8 * static_cast<int>(sizeof(Key));
  constexpr int kPasses = (kBits + kDigitBits - 1) / kDigitBits;
  int64_t counts[kPasses][kDigits] = {};
  for (int64_t i = 0; i < n; ++i) {
    for (int pass = 0; pass < kPasses; ++pass) {
      ++counts[pass][(items[i].key >> (pass * kDigitBits)) & (kDigits - 1)];
    }
  }
  for (int pass = 0; pass < kPasses; ++pass) {
    const int shift = pass * kDigitBits;
    if (counts[pass][(items[0].key >> shift) & (kDigits - 1)] == n) continue;  // one digit only
    SortByDigit(items, n, shift, counts[pass], other);
    std::swap(items, other);
  }
  return items;
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_COMMON_DIGIT_SORT_H_
