// The loops of all element-wise functions. A function is a functor that is called with the inputs
// in the compute type and returns the output.
#include "columns.h"
#include "conversions.h"
#include "functions.h"
#include "kernel.h"
#include "layout.h"
#include "loss_functions.h"
#include "mathematics.h"

using namespace opwright_cuda;

// The storage types of a functor's inputs.
template <typename... In>
struct Inputs {
  static constexpr int kCount = sizeof...(In);
};

template <int n>
struct Pointers {
  const void* at[n == 0 ? 1 : n];
};

// `width` adjacent elements of each input, or one element of a scalar input (bit i of `scalars`).
template <typename List, uint32_t scalars, int width>
struct Block;

template <uint32_t scalars, int width>
struct Block<Inputs<>, scalars, width> {
  OW_INLINE void Read(const void* const*, int64_t) {}
  template <typename Int>
  OW_INLINE void ReadAt(const void* const*, const Int*) {}
  template <uint32_t wanted>
  OW_INLINE void ReadSome(const void* const*, int64_t) {}
  template <typename Function, typename... Loaded>
  OW_INLINE auto Apply(const Function& function, int, Loaded... loaded) const {
    return function(loaded...);
  }
};

template <typename T, typename... Rest, uint32_t scalars, int width>
struct Block<Inputs<T, Rest...>, scalars, width> {
  static constexpr bool kIsScalar = (scalars & 1u) != 0;
  Vector<T, kIsScalar ? 1 : width> values;
  Block<Inputs<Rest...>, (scalars >> 1), width> others;

  // Reads block `number`.
  OW_INLINE void Read(const void* const* inputs, int64_t number) {
    using Many = Vector<T, kIsScalar ? 1 : width>;
    values = static_cast<const Many*>(*inputs)[kIsScalar ? 0 : number];
    others.Read(inputs + 1, number);
  }
  // Reads the block at a different offset in each input.
  template <typename Int>
  OW_INLINE void ReadAt(const void* const* inputs, const Int* offsets) {
    using Many = Vector<T, kIsScalar ? 1 : width>;
    values = *reinterpret_cast<const Many*>(static_cast<const T*>(*inputs) + *offsets);
    others.ReadAt(inputs + 1, offsets + 1);
  }
  // Reads the block that begins at `offset` from each input whose bit is set in `wanted`.
  template <uint32_t wanted>
  OW_INLINE void ReadSome(const void* const* inputs, int64_t offset) {
    using Many = Vector<T, kIsScalar ? 1 : width>;
    if constexpr ((wanted & 1u) != 0) {
      const T* place = static_cast<const T*>(*inputs) + (kIsScalar ? 0 : offset);
      values = *reinterpret_cast<const Many*>(place);
    }
    others.template ReadSome<(wanted >> 1)>(inputs + 1, offset);
  }
  template <typename Function, typename... Loaded>
  OW_INLINE auto Apply(const Function& function, int k, Loaded... loaded) const {
    return others.Apply(function, k, loaded..., Load(values.at[kIsScalar ? 0 : k]));
  }
};

// Inputs have the layout of the output, or are scalars. `width` is above 1 only if every pointer is
// aligned for vectors of that size. The kernel is memory-bound, and full bandwidth requires tens of
// kilobytes in flight per multiprocessor. Therefore, each thread reads `many` blocks, which are
// blockDim.x blocks apart, before it computes. A grid-stride loop is avoided, because its next step
// would wait for the previous write.
template <typename Function, typename Out, typename In, uint32_t scalars, int width, int many>
__global__ void elementwise_flat(Out* out, Pointers<In::kCount> inputs, int64_t n,
                                 Function function) {
  const int64_t n_blocks = n / width;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x * many + threadIdx.x;
  Block<In, scalars, width> blocks[many];
#pragma unroll
  for (int r = 0; r < many; ++r) {
    const int64_t number = first + static_cast<int64_t>(r) * blockDim.x;
    if (number < n_blocks) blocks[r].Read(inputs.at, number);
  }
#pragma unroll
  for (int r = 0; r < many; ++r) {
    const int64_t number = first + static_cast<int64_t>(r) * blockDim.x;
    if (number >= n_blocks) break;
    Vector<Out, width> result;
#pragma unroll
    for (int k = 0; k < width; ++k) result.at[k] = Store<Out>(blocks[r].Apply(function, k));
    reinterpret_cast<Vector<Out, width>*>(out)[number] = result;
  }
  const int64_t i = n_blocks * width + GlobalIndex();
  if (width > 1 && i < n) {
    Block<In, scalars, 1> block;
    block.Read(inputs.at, i);
    out[i] = Store<Out>(block.Apply(function, 0));
  }
}

// Inputs have any strides and are read as vectors of `width`. Adjacent elements of the output are
// adjacent in each input, or are the same element of the input (bit i of `scalars`). The layout
// counts blocks of `width` elements; strides are in elements. `Int` is as in Locate.
template <typename Function, typename Out, typename In, typename Int, uint32_t scalars, int width>
__global__ void elementwise_strided(Out* out, Pointers<In::kCount> inputs, int64_t n_blocks,
                                    Function function, Layout<In::kCount> layout) {
  for (int64_t number = GlobalIndex(); number < n_blocks; number += GridThreads()) {
    Int offsets[In::kCount == 0 ? 1 : In::kCount];
    Locate<Int>(layout, number, offsets);
    Block<In, scalars, width> block;
    block.ReadAt(inputs.at, offsets);
    Vector<Out, width> result;
#pragma unroll
    for (int k = 0; k < width; ++k) result.at[k] = Store<Out>(block.Apply(function, k));
    reinterpret_cast<Vector<Out, width>*>(out)[number] = result;
  }
}

// Inputs are matrices, a single row for all rows, or scalars. A thread keeps rows and scalars (bits
// of `kept`) in registers. `width` adjacent elements are read as a vector.
template <typename Function, typename Out, typename In, uint32_t scalars, uint32_t kept, int width>
__global__ void __launch_bounds__(kTileThreads)
    elementwise_columns(Out* out, Pointers<In::kCount> inputs, Function function, Lines lines,
                        int32_t lanes) {
  const ColumnTeam<width> team(lines, lanes);
  if (!team.is_there) return;
  Block<In, scalars, width> blocks;
  blocks.template ReadSome<kept>(inputs.at, team.column);
  team.template EachRow<kRowsAtOnce>([&](auto many, int64_t, int64_t place) {
    constexpr int kMany = decltype(many)::value;
    Block<In, scalars, width> rows[kMany];
    Vector<Out, width> results[kMany];
#pragma unroll
    for (int r = 0; r < kMany; ++r) {
      rows[r] = blocks;
      rows[r].template ReadSome<~kept>(inputs.at, place + r * team.step);
    }
#pragma unroll
    for (int r = 0; r < kMany; ++r) {
#pragma unroll
      for (int k = 0; k < width; ++k) results[r].at[k] = Store<Out>(rows[r].Apply(function, k));
    }
    team.Write(out, place, results);
  });
}
