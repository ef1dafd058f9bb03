// Reads the specification of an operation graph from a record.
#include "cudnn/cudnn.h"
#include "numbers.h"

namespace opwright_cuda {

namespace {

using Spec = OperationGraphSpec;

constexpr uint64_t kMostParts = 64;  // tensors or operations, far more than a kernel needs

Spec::Operation ReadOperation(Numbers* numbers, size_t n_tensors) {
  Spec::Operation operation{};
  operation.what = numbers->Next<Spec::What>(Spec::kWhats);
  for (size_t& tensor : operation.tensors) tensor = numbers->Next<size_t>(n_tensors);
  if (operation.what == Spec::kAdd) return operation;
  for (int64_t& number : operation.windows) number = numbers->Next();
  return operation;
}

}  // namespace

Spec ReadOperationGraph(Numbers* numbers, uint64_t constant_bytes) {
  Spec spec{};
  spec.data_type = numbers->Next<int>(64);
  const int allowed = numbers->Next<int>(4);
  spec.allows_tensor_cores = (allowed & 1) != 0;
  spec.allows_varying = (allowed & 2) != 0;
  spec.most_workspace = numbers->Next();
  spec.most_tried = numbers->Next<size_t>(kMostParts);
  spec.tensors.resize(numbers->Next<size_t>(kMostParts));
  for (Spec::Tensor& tensor : spec.tensors) {
    tensor.is_virtual = numbers->Next<int>(2) != 0;
    tensor.place = numbers->NextPlace(constant_bytes);
    for (int64_t& extent : tensor.extents) extent = numbers->Next();
    for (int64_t& stride : tensor.strides) stride = numbers->Next();
  }
  spec.operations.resize(numbers->Next<size_t>(kMostParts));
  for (Spec::Operation& operation : spec.operations) {
    operation = ReadOperation(numbers, spec.tensors.size());
  }
  return spec;
}

}  // namespace opwright_cuda
