// How the description of an operation graph is read from a record.
#include "cudnn.h"
#include "numbers.h"

namespace opwright_cuda {

namespace {

using Spec = OperationGraphSpec;

constexpr uint64_t kMostParts = 64;  // tensors, operations: far more than one kernel wants

Spec::Operation ReadOperation(Numbers* numbers, size_t n_tensors) {
  Spec::Operation operation{};
  operation.what = numbers->Next<Spec::What>(Spec::kWhats);
  for (int64_t& tensor : operation.tensors) tensor = numbers->Next();
  const bool is_convolution = operation.what < Spec::kAdd;
  for (size_t i = 0; i < operation.tensors.size(); ++i) {
    const int64_t least = i == 1 && operation.what == Spec::kRelu ? -1 : 0;
    const int64_t tensor = operation.tensors[i];
    if (tensor < least || tensor >= static_cast<int64_t>(n_tensors)) {
      throw opwright::Exception("cuda.launch: an operation graph of ", n_tensors,
                                " tensors has none of the number ", tensor);
    }
  }
  if (is_convolution) {
    for (int64_t& number : operation.windows) number = numbers->Next();
  }
  return operation;
}

}  // namespace

Spec ReadOperationGraph(Numbers* numbers, uint64_t constant_bytes) {
  Spec spec{};
  spec.data_type = numbers->Next<int>(64);
  spec.allows_tensor_cores = numbers->Next<int>(2) != 0;
  spec.most_workspace = numbers->Next();
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
