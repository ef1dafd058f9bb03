// The layout of a tensor in memory of parts, one per process. Compiled by the C++ compiler, NVRTC
// and the emulator.
#ifndef OPWRIGHT_NCCL_PARTS_H_
#define OPWRIGHT_NCCL_PARTS_H_

namespace opwright_nccl {

// A tensor is [outer, parts, run]; memory of parts is [parts, outer, run], with `stride` elements
// from part to part. The tensor has n elements; parts are padded with 0.
struct Parts {
  long long outer;
  long long parts;
  long long run;
  long long n;
  long long stride;
};

}  // namespace opwright_nccl

#endif  // OPWRIGHT_NCCL_PARTS_H_
