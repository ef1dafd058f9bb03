// searchsorted: insertion positions in a sorted vector, with one thread per value.
#include "functions.h"

using namespace opwright_cuda;

// NaN counts as greater than every number.
template <typename C>
OW_INLINE bool IsLess(C x, C y) {
  return x < y || (x == x && y != y);
}

// Searches `row` values in each row of x, which has `length` elements.
template <typename T, typename Out>
__global__ void searchsorted(Out* out, const T* rows, const T* values, int64_t length, int64_t row,
                             int64_t n, bool is_right) {
  for (int64_t k = GlobalIndex(); k < n; k += GridThreads()) {
    const auto value = Load(values[k]);
    const T* x = rows + k / row * length;
    int64_t low = 0, high = length;  // [0, low) precedes the value, [high, length) does not
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const auto other = Load(x[middle]);
      const bool is_before = is_right ? !IsLess(value, other) : IsLess(other, value);
      if (is_before) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    out[k] = static_cast<Out>(low);
  }
}
