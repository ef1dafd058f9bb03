// The only kernel of this library. It executes the launches that Python recorded in `prepare`.
#ifndef OPWRIGHT_CUDA_LAUNCH_LAUNCH_H_
#define OPWRIGHT_CUDA_LAUNCH_LAUNCH_H_

#include <cstdint>

#include <opwright/abi.h>

namespace opwright_cuda {

// The codes that begin the record of an action; see ActionCode in launch/plan.py.
enum ActionCode : int64_t {
  kLaunch = 0,
  kFill = 1,
  kProduct = 2,
  kUnlessSame = 3,
  kOperationGraph = 4,
};

// Special argument indices; see WORKSPACE and FAULT in launch/arguments.py.
constexpr int64_t kWorkspaceArgument = -1;
constexpr int64_t kFaultArgument = -2;

constexpr uint64_t kWorkspaceAlignment = 256;

// "cuda.launch", the operator that runs an opwright.kernel.DeviceCall. Its attributes:
//
//   name       STRING  name of the kernel in error messages
//   constants  STRING  the bytes of all kernel parameters, before pointers are filled in
//   fixups     INTS    (argument, byte offset, position) for each pointer: the address of
//                      the argument's data, or of the workspace (-1), or of the fault record
//                      (-2), plus the offset, is written to that position in `constants`
//   actions    INTS    a sequence, each a code followed by its numbers:
//                        0 launch:  kernel, grid x y z, block x y z, shared bytes, n, n positions
//                        1 fill:    position of the pointer, bytes, value of each byte
//                        2 product: see blas/blas.h
//                        3 unless same: the positions of two pointers; if both hold the same
//                                   address, the next action is skipped
//                        4 operation graph: see cudnn/cudnn.h
//   workspace  INT     bytes, without the workspace of cuDNN
//   estimate   INT     nanoseconds
ow_kernel LaunchKernelTable();

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_LAUNCH_LAUNCH_H_
