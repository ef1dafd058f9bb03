// The progress of the collectives of a group, which the GPU writes to host memory. Compiled by the
// C++ compiler, NVRTC and the emulator.
#ifndef OPWRIGHT_NCCL_PROGRESS_H_
#define OPWRIGHT_NCCL_PROGRESS_H_

namespace opwright_nccl {

struct Progress {
  long long begun;     // collectives started by this process
  long long ended;     // finished collectives
  int operation;       // the last started operation
  int differs;         // the first process whose plan differs from rank 0's, or 0
  long long first[2];  // digest and number of collectives of rank 0, if a plan differs
  long long other[2];  // digest and number of collectives of the process that differs
  int released;        // set by the host to end the wait after plans differed
  int reserved;
};

}  // namespace opwright_nccl

#endif  // OPWRIGHT_NCCL_PROGRESS_H_
