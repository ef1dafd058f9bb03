// edit_distance: computes the table of prefix distances diagonal by diagonal, since elements of a
// diagonal do not depend on each other. A block processes one pair of sequences.
#include "lengths.h"
#include "room.h"

using namespace opwright_cuda;

// The ids of the sequences, x [n, x_steps] and label [n, label_steps].
template <typename Id>
struct Pairs {
  const Id* x;
  const Id* label;
  Lengths x_lengths;
  Lengths label_lengths;
  int64_t n;
  int64_t x_steps;
  int64_t label_steps;
};

// Element j of diagonal d is the distance between the first d - j ids of x and the first j ids of
// the label. The scratch memory holds the last three diagonals.
template <typename Id>
__global__ void edit_distance(float* out, Pairs<Id> pairs, bool is_normalized, Room room) {
  int32_t* const rows = room.OfBlock<int32_t>();
  const int64_t stride = pairs.label_steps + 1;
  for (int64_t b = blockIdx.x; b < pairs.n; b += gridDim.x) {
    const Id* const x = pairs.x + b * pairs.x_steps;
    const Id* const label = pairs.label + b * pairs.label_steps;
    const int64_t t = pairs.x_lengths.Of(b, pairs.x_steps);
    const int64_t u = pairs.label_lengths.Of(b, pairs.label_steps);
    int32_t* now = rows;
    int32_t* last = now + stride;
    int32_t* before = last + stride;
    for (int64_t d = 0; d <= t + u; ++d) {
      int32_t* const oldest = before;
      before = last;
      last = now;
      now = oldest;
      const int64_t most = d < u ? d : u;
      for (int64_t j = (d > t ? d - t : 0) + threadIdx.x; j <= most; j += blockDim.x) {
        const int64_t i = d - j;
        int32_t edits = static_cast<int32_t>(d);
        if (i > 0 && j > 0) {
          edits = before[j - 1] + (x[i - 1] != label[j - 1] ? 1 : 0);
          edits = min(edits, min(last[j], last[j - 1]) + 1);
        }
        now[j] = edits;
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      // The distance is infinite if a positive number of edits is divided by a length of 0, but 0
      // edits are 0 for every length.
      const double edits = now[u], divisor = is_normalized && now[u] > 0 ? u : 1;
      out[b] = divisor > 0 ? static_cast<float>(edits / divisor) : FloatOfBits(0x7f800000u);
    }
    __syncthreads();  // before the next pair starts
  }
}
