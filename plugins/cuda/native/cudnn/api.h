// Functions of the cuDNN graph API, loaded at first use.
#ifndef OPWRIGHT_CUDA_CUDNN_API_H_
#define OPWRIGHT_CUDA_CUDNN_API_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "driver/driver.h"

namespace opwright_cuda {

// Each entry is a name, a symbol and its parameters. Handles and descriptors are opaque pointers.
#define OPWRIGHT_CUDA_CUDNN_FUNCTIONS(X)                                                    \
  X(Create, "cudnnCreate", (void**))                                                        \
  X(Destroy, "cudnnDestroy", (void*))                                                       \
  X(SetStream, "cudnnSetStream", (void*, CUstream))                                         \
  X(DescriptorCreate, "cudnnBackendCreateDescriptor", (int, void**))                        \
  X(DescriptorDestroy, "cudnnBackendDestroyDescriptor", (void*))                            \
  X(DescriptorSet, "cudnnBackendSetAttribute", (void*, int, int, int64_t, const void*))     \
  X(DescriptorGet, "cudnnBackendGetAttribute", (void*, int, int, int64_t, int64_t*, void*)) \
  X(DescriptorFinalize, "cudnnBackendFinalize", (void*))                                    \
  X(Execute, "cudnnBackendExecute", (void*, void*, void*))

struct CudnnApi {
#define OPWRIGHT_CUDA_DECLARE(name, symbol, parameters) int(*name) parameters = nullptr;
  OPWRIGHT_CUDA_CUDNN_FUNCTIONS(OPWRIGHT_CUDA_DECLARE)
#undef OPWRIGHT_CUDA_DECLARE
  size_t (*Version)() = nullptr;
  size_t (*CudartVersion)() = nullptr;
  const char* (*ErrorString)(int) = nullptr;
  void (*LastErrorString)(char*, size_t) = nullptr;

  // Returns OK, or an error with the message of cuDNN.
  Status Check(int status, const char* what) const;
};

// Returns an error if the library is missing, too old, or built for a different CUDA version.
Status OpenCudnn(const CudnnApi** api);

// Sets the path of libcudnn. Python calls this function before the first use of cuDNN.
void SetCudnnPath(const std::string& path);

// A descriptor of the backend API. The descriptor stores errors until Finalize returns them.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  CudnnDescriptor(const CudnnApi& api, int type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept { *this = std::move(other); }
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;

  bool is_made() const { return raw_ != nullptr; }
  void* raw() const { return raw_; }

  void SetHandle(int attribute, void* handle);
  void SetNumbers(int attribute, const std::vector<int64_t>& numbers);
  void SetFloat(int attribute, float number);
  void SetBool(int attribute, bool value);
  // Sets an attribute to an enumerator, such as a data type or a mode.
  void SetChoice(int attribute, int type, int choice);
  void SetDescriptors(int attribute, const std::vector<void*>& descriptors);
  void SetPointers(int attribute, const std::vector<void*>& pointers);
  void SetText(int attribute, const std::string& text);
  Status Finalize(const char* what);

  Status GetNumber(int attribute, int64_t* number) const;
  Status GetChoices(int attribute, int type, std::vector<int>* choices) const;
  // Reads a descriptor into an existing descriptor.
  Status GetDescriptor(int attribute, CudnnDescriptor* found) const;
  // Reads all descriptors of one type.
  Status GetDescriptors(int attribute, int type, std::vector<CudnnDescriptor>* found) const;

 private:
  void Set(int attribute, int type, size_t n, const void* elements);

  const CudnnApi* api_ = nullptr;
  void* raw_ = nullptr;
  Status status_;
};

// Descriptor types and attribute element types, from cudnn_graph.h.
namespace cudnn {
enum Descriptor : int {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristics = 4,
  kPlan = 5,
  kForward = 10,
  kBackwardFilter = 11,
  kBackwardData = 12,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kDeviceProperties = 38,
};
enum Element : int {
  kHandle = 0,
  kDataType = 1,
  kBoolean = 2,
  kInt64 = 3,
  kFloat = 4,
  kVoidPointer = 6,
  kConvolutionMode = 7,
  kHeuristicsMode = 8,
  kNumericalNote = 11,
  kPointwiseMode = 14,
  kBackendDescriptor = 15,
  kChar = 24,
};
}  // namespace cudnn

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_CUDNN_API_H_
