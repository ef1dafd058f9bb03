// How far the collectives of a group are, in host memory that the GPU writes. Read by C++, by NVRTC
// and by the host's compiler in the emulator.
#ifndef OPWRIGHT_NCCL_PROGRESS_H_
#define OPWRIGHT_NCCL_PROGRESS_H_

namespace opwright_nccl {

struct Progress {
  long long begun;  // collectives that this process has come to
  long long ended;  // those that are done
  int operation;    // the one that began last
  int differs;      // the first process whose plan differs from that of rank 0; 0 where none does
  long long first[2];  // digest and number of collectives of rank 0, where one differs
  long long other[2];  // and those of the other
  int released;        // set by the host: what waits since plans differ, ends
  int reserved;
};

}  // namespace opwright_nccl

#endif  // OPWRIGHT_NCCL_PROGRESS_H_
