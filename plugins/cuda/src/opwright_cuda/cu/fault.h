// The report of an invalid value, such as an index out of range. The first report is kept until the
// host reads it. This header is included by C++, NVRTC and the host shim.
#ifndef OPWRIGHT_CUDA_FAULT_H_
#define OPWRIGHT_CUDA_FAULT_H_

namespace opwright_cuda {

struct Fault {
  int is_set;       // 0 if no fault has occurred
  int text;         // index of the registered text
  long long value;  // the invalid value
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_FAULT_H_
