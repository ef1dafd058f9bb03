// cuDNN operation graphs of a convolution and its fused operations.
#ifndef OPWRIGHT_CUDA_CUDNN_CUDNN_H_
#define OPWRIGHT_CUDA_CUDNN_CUDNN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cudnn/api.h"
#include "driver/driver.h"

namespace opwright_cuda {

// The specification of a graph. The record of a launch contains, in this order:
//
//   the data type of inputs and outputs (cudnnDataType); the permissions of engines as bits, 1 to
//   use tensor cores and 2 to be nondeterministic; the maximum workspace bytes; the number of
//   engines to benchmark, where 1 uses the first that works; the number of tensors; for each
//   tensor, whether it is virtual (a float32 that is never stored), the index of its pointer in
//   the constants, and 4 extents and 4 strides in the order n, channels, height, width; the number
//   of operations; and for each operation, its kind, the tensors x, second operand (weight) and
//   result, and for a convolution the strides, paddings before, paddings after and dilations, each
//   for the height and the width.
struct OperationGraphSpec {
  static constexpr size_t kRank = 4;
  enum What : int64_t {
    kForward,         // result = x * weight
    kDataGradient,    // x = transposed convolution of result and weight
    kWeightGradient,  // weight from x and result
    kAdd,             // result = x + second operand, broadcast along extents of 1
    kWhats,
  };
  struct Tensor {
    bool is_virtual;
    size_t place;
    std::array<int64_t, kRank> extents;
    std::array<int64_t, kRank> strides;
  };
  struct Operation {
    What what;
    std::array<size_t, 3> tensors;
    std::array<int64_t, 8> windows;
  };
  int data_type;
  bool allows_tensor_cores;
  bool allows_varying;
  int64_t most_workspace;
  size_t most_tried;
  std::vector<Tensor> tensors;
  std::vector<Operation> operations;
};

class Numbers;

// Throws opwright::Exception if the record is invalid.
OperationGraphSpec ReadOperationGraph(Numbers* numbers, uint64_t constant_bytes);

// The GPU for which an engine is chosen, given by a handle or a description.
struct CudnnTarget {
  const CudnnApi& api;
  const Driver* driver;
  void* handle;
  void* properties;
};

// The chosen engine.
struct CudnnEngine {
  int64_t number = 0;
  int64_t workspace = 0;
  uint64_t notes = 0;  // bits indexed by cudnnBackendNumericalNote
};

// An engine for a graph, ready to run.
struct CudnnCandidate {
  CudnnEngine engine;
  CudnnDescriptor config;  // configuration from which the plan is made
  CudnnDescriptor plan;
};

class Cudnn;

// A graph with its engine. It is immutable except for the arguments of the last run.
class OperationGraph {
 public:
  OperationGraph(const CudnnTarget& target, std::mutex* mutex, OperationGraphSpec spec)
      : target_(target), mutex_(mutex), spec_(std::move(spec)) {}
  OperationGraph(const OperationGraph&) = delete;
  OperationGraph& operator=(const OperationGraph&) = delete;

  // Chooses the first valid engine or, if the specification requests a benchmark, the fastest of
  // several. Refuses if no engine is valid.
  Status Choose();
  const CudnnEngine& engine() const { return engine_; }
  // Offsets of the pointers in the constants of a launch; virtual tensors are omitted.
  const std::vector<size_t>& places() const { return places_; }
  Status Run(const std::vector<void*>& pointers, void* workspace, CUstream stream);

 private:
  Status Describe(CudnnDescriptor* graph);
  Status DescribeTensor(size_t index, const OperationGraphSpec::Tensor& tensor);
  Status DescribeConvolution(const OperationGraphSpec::Operation& operation,
                             CudnnDescriptor* described);
  Status DescribeSum(const OperationGraphSpec::Operation& operation, CudnnDescriptor* described);
  bool Allows(uint64_t notes) const;
  Status MakePlan(CudnnDescriptor config, CudnnCandidate* candidate) const;
  // Adds the valid engines of a heuristic mode; returns the status of the last invalid engine.
  Status Collect(const CudnnDescriptor& graph, int mode, std::vector<CudnnCandidate>* found) const;
  Status FindFastest(const std::vector<CudnnCandidate>& candidates, size_t* fastest);
  uint64_t BytesOf(const OperationGraphSpec::Tensor& tensor) const;
  Status Pack(const std::vector<void*>& pointers, void* workspace);
  // Other threads must not use the handle at the same time.
  Status Execute(const CudnnDescriptor& plan, const std::vector<void*>& pointers, void* workspace,
                 CUstream stream);

  CudnnTarget target_;
  std::mutex* mutex_;
  OperationGraphSpec spec_;
  std::vector<size_t> places_;
  std::vector<int64_t> names_;  // names of the tensors of `places_`
  CudnnEngine engine_;
  // The descriptors from which the plan is made must outlive the plan.
  std::vector<CudnnDescriptor> parts_;
  CudnnDescriptor plan_;
  // The pointers of the last run. The pointers rarely change, since a plan reuses its memory.
  std::vector<void*> packed_;
  CudnnDescriptor pack_;
};

// cuDNN on one GPU.
class Cudnn {
 public:
  // Opens cuDNN on the current context; returns the same errors as `OpenCudnn`.
  static Status Open(const Driver& driver, std::unique_ptr<Cudnn>* cudnn);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  // `record` is the source of the specification. While a graph for this record is in use, that
  // graph is returned, because choosing an engine may take seconds, and a kernel that defers work
  // is prepared twice.
  Status Make(const std::vector<int64_t>& record, OperationGraphSpec spec,
              std::shared_ptr<OperationGraph>* graph);

 private:
  Cudnn(const CudnnApi& api, const Driver& driver, void* handle)
      : api_(api), driver_(driver), handle_(handle) {}

  const CudnnApi& api_;
  const Driver& driver_;
  void* handle_;
  std::mutex mutex_;  // needed because a handle has one stream at a time
  std::map<std::vector<int64_t>, std::weak_ptr<OperationGraph>> made_;
};

// Chooses an engine for an absent GPU, which is described by JSON in cuDNN's format.
Status ChooseFor(const std::string& properties, const OperationGraphSpec& spec,
                 CudnnEngine* engine);

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_CUDNN_CUDNN_H_
