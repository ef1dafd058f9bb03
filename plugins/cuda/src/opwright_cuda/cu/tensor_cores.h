// Products of 16-bit floats by the tensor cores of a warp, summed in float32, for GPUs of compute
// capability 8.0 and later.
//
// The operands of an instruction are distributed among the 32 lanes of a warp; PTX documents the
// layouts. Other compilers move the elements by shuffles, in the same layouts.
#ifndef OPWRIGHT_CUDA_TENSOR_CORES_H_
#define OPWRIGHT_CUDA_TENSOR_CORES_H_

#include "kernel.h"
#include "reduce.h"

namespace opwright_cuda {

constexpr int kTile = 16;      // rows of a left tile, and steps of a product
constexpr int kRightTile = 8;  // columns of a right tile
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kCopyBytes = 16;  // size of an asynchronous copy

// The first of the two rows of this lane in a tile of sums; the second is 8 rows below.
OW_INLINE int LaneRow() { return LaneIndex() / 4; }
// The first of the two adjacent columns of this lane in a tile of sums.
OW_INLINE int LaneColumn() { return LaneIndex() % 4 * 2; }

// A left operand of 16 rows and 16 steps. Each register contains two adjacent steps.
struct LeftTile {
  uint32_t at[4];
};
// A right operand of 16 steps and 8 columns.
struct RightTile {
  uint32_t at[2];
};
// A result of 16 rows and 8 columns: elements 0 and 1 are in row LaneRow(), 2 and 3 in
// LaneRow() + 8.
struct TileOfSums {
  float at[4];
};

// Rounds two adjacent elements into one register.
template <typename T>
OW_INLINE uint32_t PackPair(float first, float second) {
#if defined(__CUDACC_RTC__)
  uint32_t packed;
  if constexpr (IsSame<T, Half>::value) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  }
  return packed;
#else
  return Store<T>(first).bits | static_cast<uint32_t>(Store<T>(second).bits) << 16;
#endif
}

// Rounds two tiles of sums, with 16 adjacent columns, to the left operand of a further product.
template <typename T>
OW_INLINE LeftTile LeftTileOf(const TileOfSums& left, const TileOfSums& right) {
  return {{PackPair<T>(left.at[0], left.at[1]), PackPair<T>(left.at[2], left.at[3]),
           PackPair<T>(right.at[0], right.at[1]), PackPair<T>(right.at[2], right.at[3])}};
}

#if !defined(__CUDACC_RTC__)
template <typename T>
OW_INLINE float HalfOfPair(uint32_t pair, int which) {
  return Load(T{static_cast<uint16_t>(pair >> (16 * which))});
}
#endif

// Adds the product of two tiles to the sums.
template <typename T>
OW_INLINE void MultiplyAdd(const LeftTile& x, const RightTile& y, TileOfSums* sums) {
#if defined(__CUDACC_RTC__)
  float* s = sums->at;
  if constexpr (IsSame<T, Half>::value) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
        : "r"(x.at[0]), "r"(x.at[1]), "r"(x.at[2]), "r"(x.at[3]), "r"(y.at[0]), "r"(y.at[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
        : "r"(x.at[0]), "r"(x.at[1]), "r"(x.at[2]), "r"(x.at[3]), "r"(y.at[0]), "r"(y.at[1]));
  }
#else
  for (int lane = 0; lane < 4; ++lane) {  // the lanes with the steps of a row
    const int row = LaneRow() * 4 + lane;
    uint32_t left[4], right[2][2];
    for (int i = 0; i < 4; ++i) left[i] = __shfl_sync(kAllLanes, x.at[i], row);
    for (int column = 0; column < 2; ++column) {
      for (int i = 0; i < 2; ++i) {
        right[column][i] = __shfl_sync(kAllLanes, y.at[i], (LaneColumn() + column) * 4 + lane);
      }
    }
    for (int i = 0; i < 4; ++i) {             // of the sums
      for (int half = 0; half < 2; ++half) {  // of the steps
        for (int which = 0; which < 2; ++which) {
          sums->at[i] += HalfOfPair<T>(left[i / 2 + 2 * half], which) *
                         HalfOfPair<T>(right[i % 2][half], which);
        }
      }
    }
  }
#endif
}

// Reads four matrices of 8 x 8 elements from shared memory. Lane i passes the address of row i % 8
// of matrix i / 8, aligned to 16 bytes. A lane gets two adjacent columns of row LaneRow() of each
// matrix, or if transposed, two adjacent rows of column LaneRow().
template <bool kTransposed, typename T>
OW_INLINE void LoadMatrices(const T* row, uint32_t* first, uint32_t* second, uint32_t* third,
                            uint32_t* fourth) {
#if defined(__CUDACC_RTC__)
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(*first), "=r"(*second), "=r"(*third), "=r"(*fourth)
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(*first), "=r"(*second), "=r"(*third), "=r"(*fourth)
                 : "r"(address)
                 : "memory");
  }
#else
  uint32_t* const results[] = {first, second, third, fourth};
  for (int matrix = 0; matrix < 4; ++matrix) {
    uint32_t pair = 0;
    for (int which = 0; which < 2; ++which) {
      const int line = kTransposed ? LaneColumn() + which : LaneRow();
      const int element = kTransposed ? LaneRow() : LaneColumn() + which;
      const T* const from = __shfl_sync(kAllLanes, row, matrix * 8 + line);
      pair |= static_cast<uint32_t>(from[element].bits) << (16 * which);
    }
    *results[matrix] = pair;
  }
#endif
}

// Returns the left tile that begins at `tile`, whose rows are `pitch` elements apart.
template <typename T>
OW_INLINE LeftTile LoadLeft(const T* tile, int pitch) {
  const int lane = LaneIndex();
  LeftTile made;
  LoadMatrices<false>(tile + lane % 16 * pitch + lane / 16 * 8, &made.at[0], &made.at[1],
                      &made.at[2], &made.at[3]);
  return made;
}

// Reads two right tiles with adjacent columns from a matrix whose rows are these columns.
template <typename T>
OW_INLINE void LoadRightRows(const T* tile, int pitch, RightTile* left, RightTile* right) {
  const int lane = LaneIndex();
  LoadMatrices<false>(tile + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8, &left->at[0],
                      &left->at[1], &right->at[0], &right->at[1]);
}

// Reads two right tiles with adjacent columns from a matrix whose rows are the steps.
template <typename T>
OW_INLINE void LoadRightColumns(const T* tile, int pitch, RightTile* left, RightTile* right) {
  const int lane = LaneIndex();
  LoadMatrices<true>(tile + lane % 16 * pitch + lane / 16 * 8, &left->at[0], &left->at[1],
                     &right->at[0], &right->at[1]);
}

// ---- Asynchronous copies to shared memory

// Starts to copy 16 bytes, or to write zeros if the source is not there.
OW_INLINE void StartCopy(void* to, const void* from, bool is_there) {
#if defined(__CUDACC_RTC__)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(is_there ? kCopyBytes : 0)
               : "memory");
#else
  using Whole = Vector<uint32_t, 4>;
  *static_cast<Whole*>(to) = is_there ? *static_cast<const Whole*>(from) : Whole{};
#endif
}

// Ends a group of copies.
OW_INLINE void EndCopies() {
#if defined(__CUDACC_RTC__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most the last `kLast` groups of this thread are incomplete.
template <int kLast>
OW_INLINE void WaitForCopies() {
#if defined(__CUDACC_RTC__)
  asm volatile("cp.async.wait_group %0;" ::"n"(kLast) : "memory");
#endif
}

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_TENSOR_CORES_H_
