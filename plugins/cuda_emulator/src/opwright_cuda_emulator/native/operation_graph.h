// The computations of the emulated cuDNN, independent of its descriptors.
#ifndef OPWRIGHT_CUDA_EMULATOR_OPERATION_GRAPH_H_
#define OPWRIGHT_CUDA_EMULATOR_OPERATION_GRAPH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace emulator {

// A tensor with the axes n, channels, height and width.
struct Tensor {
  std::array<int64_t, 4> extents{};
  std::array<int64_t, 4> strides{};
  int64_t name = 0;
  int type = 0;  // cudnnDataType
  bool is_virtual = false;
};

struct Windows {
  std::array<int64_t, 2> strides{}, before{}, behind{}, dilations{};
};

struct Operation {
  enum What { kForward, kDataGradient, kWeightGradient, kAdd };
  What what = kForward;
  Tensor x, weight, result;
  Windows windows;

  // Describes the first mismatch between the tensors, or returns an empty string.
  std::string FindMismatch() const;
};

struct OperationGraph {
  std::vector<Operation> operations;
};

struct GraphCall {
  std::shared_ptr<const OperationGraph> graph;
  std::map<int64_t, char*> pointers;  // by tensor name
  char* workspace = nullptr;
  size_t workspace_bytes = 0;
  bool rounds_to_tf32 = false;  // whether float32 factors are rounded to TF32

  // Describes a missing or misaligned pointer, or returns an empty string.
  std::string FindMisuse() const;
  std::string Run() const;
};

}  // namespace emulator

#endif  // OPWRIGHT_CUDA_EMULATOR_OPERATION_GRAPH_H_
