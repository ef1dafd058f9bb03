// What a kernel reports when a value is wrong, an index out of range for example: the first report
// stays until the host reads it. Read by C++, by NVRTC and by the host shim.
#ifndef OPWRIGHT_CUDA_FAULT_H_
#define OPWRIGHT_CUDA_FAULT_H_

namespace opwright_cuda {

struct Fault {
  int is_set;       // 0 where all is well
  int text;         // which text was registered for it
  long long value;  // what was found
};

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_FAULT_H_
