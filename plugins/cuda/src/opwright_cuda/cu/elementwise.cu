// One loop for all functions of elements. What is computed is a functor: its call operator takes
// the values of the inputs, in the type that theirs computes in, and returns that of the output.
#include "functions.h"
#include "kernel.h"

using namespace opwright_cuda;

// The types of the inputs of a functor, as they lie in memory.
template <typename... In>
struct Inputs {
  static constexpr int kCount = sizeof...(In);
};

template <int n>
struct Pointers {
  const void* at[n == 0 ? 1 : n];
};

// `width` neighbouring elements of each input, or one of an input that is the same everywhere (bit
// i of `scalars`).
template <typename List, uint32_t scalars, int width>
struct Block;

template <uint32_t scalars, int width>
struct Block<Inputs<>, scalars, width> {
  OW_INLINE void Read(const void* const*, int64_t) {}
  OW_INLINE void ReadAt(const void* const*, const int64_t*) {}
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

  // The block of this number.
  OW_INLINE void Read(const void* const* inputs, int64_t number) {
    using Many = Vector<T, kIsScalar ? 1 : width>;
    values = static_cast<const Many*>(*inputs)[kIsScalar ? 0 : number];
    others.Read(inputs + 1, number);
  }
  // One element of each input, at an offset of its own.
  OW_INLINE void ReadAt(const void* const* inputs, const int64_t* offsets) {
    values.at[0] = static_cast<const T*>(*inputs)[*offsets];
    others.ReadAt(inputs + 1, offsets + 1);
  }
  template <typename Function, typename... Loaded>
  OW_INLINE auto Apply(const Function& function, int k, Loaded... loaded) const {
    return others.Apply(function, k, loaded..., Load(values.at[kIsScalar ? 0 : k]));
  }
};

// Inputs lie as the output does, or are scalars. `width` is more than 1 only where every pointer
// allows vectors of so many elements.
template <typename Function, typename Out, typename In, uint32_t scalars, int width>
__global__ void elementwise_flat(Out* out, Pointers<In::kCount> inputs, int64_t n,
                                 Function function) {
  const int64_t n_blocks = n / width;
  for (int64_t number = GlobalIndex(); number < n_blocks; number += GridThreads()) {
    Block<In, scalars, width> block;
    block.Read(inputs.at, number);
    Vector<Out, width> result;
#pragma unroll
    for (int k = 0; k < width; ++k) result.at[k] = Store<Out>(block.Apply(function, k));
    reinterpret_cast<Vector<Out, width>*>(out)[number] = result;
  }
  const int64_t i = n_blocks * width + GlobalIndex();
  if (width > 1 && i < n) {
    Block<In, scalars, 1> block;
    block.Read(inputs.at, i);
    out[i] = Store<Out>(block.Apply(function, 0));
  }
}

// How inputs lie beside an output of `rank` dimensions, the last one first; strides in elements.
template <int n>
struct Layout {
  int64_t dims[kMaxRank];
  int64_t strides[n == 0 ? 1 : n][kMaxRank];
  Divider dividers[kMaxRank];
  int32_t rank;
};

// Inputs of any strides. `Int` is uint32_t where every product fits: dividing it is far cheaper.
template <typename Function, typename Out, typename In, typename Int>
__global__ void elementwise_strided(Out* out, Pointers<In::kCount> inputs, int64_t n,
                                    Function function, Layout<In::kCount> layout) {
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    int64_t offsets[In::kCount == 0 ? 1 : In::kCount] = {};
    Int rest = static_cast<Int>(i);
#pragma unroll
    for (int d = 0; d < kMaxRank; ++d) {
      if (d >= layout.rank) break;
      Int quotient;
      if constexpr (sizeof(Int) == 4) {
        quotient = QuotientOf(rest, layout.dividers[d]);
      } else {
        quotient = rest / static_cast<Int>(layout.dims[d]);
      }
      const int64_t place = static_cast<int64_t>(rest - quotient * static_cast<Int>(layout.dims[d]));
      rest = quotient;
#pragma unroll
      for (int k = 0; k < In::kCount; ++k) offsets[k] += place * layout.strides[k][d];
    }
    Block<In, 0, 1> block;
    block.ReadAt(inputs.at, offsets);
    out[i] = Store<Out>(block.Apply(function, 0));
  }
}
