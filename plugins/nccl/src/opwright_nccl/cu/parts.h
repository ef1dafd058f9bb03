// How a tensor lies in memory of parts, one for each process. Read by C++, by NVRTC and by the
// host's compiler in the emulator.
#ifndef OPWRIGHT_NCCL_PARTS_H_
#define OPWRIGHT_NCCL_PARTS_H_

namespace opwright_nccl {

// A tensor is [outer, parts, run], memory of parts [parts, outer, run]: `stride` elements from part
// to part. The tensor ends with element n; what a part has for those behind it is 0.
struct Parts {
  long long outer;
  long long parts;
  long long run;
  long long n;
  long long stride;
};

}  // namespace opwright_nccl

#endif  // OPWRIGHT_NCCL_PARTS_H_
