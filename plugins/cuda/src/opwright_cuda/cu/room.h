// Scratch memory of a block for the states of one sequence at a time: shared memory if that
// suffices, otherwise a part of the workspace. Created by opwright_cuda.kernels.room.
#ifndef OPWRIGHT_CUDA_ROOM_H_
#define OPWRIGHT_CUDA_ROOM_H_

#include "kernel.h"

namespace opwright_cuda {

struct Room {
  unsigned char* workspace;  // null if shared memory is used
  int64_t n_bytes;           // bytes per block

  // Returns the scratch memory of a block. The block must have finished the previous sequence.
  template <typename T>
  OW_INLINE T* OfBlock() const {
    OW_DYNAMIC_SHARED(unsigned char, shared);
    unsigned char* const begin = workspace == nullptr ? shared : workspace + blockIdx.x * n_bytes;
    return reinterpret_cast<T*>(begin);
  }
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_ROOM_H_
