// The cuDNN graph API on the CPU, with the functions that native/cudnn/cudnn.cc of opwright-cuda
// uses. Descriptors check types, order and sizes as strictly as in cuDNN. Graphs are computed by
// simple loops in double precision.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver.h"
#include "operation_graph.h"

using namespace emulator;

namespace {

constexpr int kNotInitialized = 1001;
constexpr int kBadParam = 2000;
constexpr int kNotFinalized = 2004;
constexpr int kShapeMismatch = 2008;
constexpr int kAttributeType = 2010;
constexpr int kNotSupported = 3000;

// Descriptor types and element types, from cudnn_graph.h.
enum : int {
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
};
constexpr int kDescriptorElement = 15;

size_t ElementBytes(int type) {
  constexpr int kEightBytes[] = {0, 3, 6, kDescriptorElement};  // handles, integers, pointers
  for (const int known : kEightBytes) {
    if (type == known) return 8;
  }
  return type == 2 ? 1 : 4;  // a bool, or a float or an enumerator
}

struct Attribute {
  int number;
  int type;          // element type
  int descriptor;    // type of the descriptor that has the attribute
  bool is_optional;  // whether it may be omitted
};

// All attributes that the launcher sets, except convolution attributes.
constexpr Attribute kAttributes[] = {
    {0, 14, kPointwise, false},
    {1, 1, kPointwise, false},
    {100, 1, kConvolution, false},
    {101, 7, kConvolution, false},
    {102, 3, kConvolution, false},
    {103, 3, kConvolution, false},
    {104, 3, kConvolution, false},
    {105, 3, kConvolution, false},
    {106, 3, kConvolution, false},
    {200, 8, kHeuristics, false},
    {201, 15, kHeuristics, false},
    {400, 0, kPlan, false},
    {401, 15, kPlan, false},
    {750, 15, kPointwiseOperation, false},
    {751, 15, kPointwiseOperation, false},
    {752, 15, kPointwiseOperation, false},
    {753, 15, kPointwiseOperation, false},
    {800, 0, kOperationGraph, false},
    {801, 15, kOperationGraph, false},
    {900, 3, kTensor, false},
    {901, 1, kTensor, false},
    {902, 3, kTensor, false},
    {903, 3, kTensor, false},
    {906, 3, kTensor, false},
    {907, 2, kTensor, true},
    {1000, 3, kVariantPack, false},
    {1001, 6, kVariantPack, false},
    {1003, 6, kVariantPack, false},
};

// Each of the three kinds of convolutions has six consecutive attributes: two factors and four
// descriptors.
constexpr int kConvolutionKinds[] = {kForward, kBackwardData, kBackwardFilter};
constexpr int kFirstOfConvolutions = 700;

std::vector<Attribute> AttributesOf(int descriptor) {
  std::vector<Attribute> found;
  for (const Attribute& attribute : kAttributes) {
    if (attribute.descriptor == descriptor) found.push_back(attribute);
  }
  for (int i = 0; i < 18; ++i) {
    const int kind = kConvolutionKinds[i / 6];
    if (kind != descriptor) continue;
    found.push_back({kFirstOfConvolutions + i, i % 6 < 2 ? 4 : kDescriptorElement, kind, false});
  }
  return found;
}

struct Descriptor {
  int type = 0;
  bool is_final = false;
  std::map<int, std::vector<char>> values;
  int engine = -1;  // index of an engine, for engines and their configurations
  std::shared_ptr<const OperationGraph> graph;

  template <typename T>
  std::vector<T> Get(int attribute) const {
    const std::vector<char>& bytes = values.at(attribute);
    std::vector<T> elements(bytes.size() / sizeof(T));
    std::memcpy(elements.data(), bytes.data(), bytes.size());
    return elements;
  }
  template <typename T>
  T GetOne(int attribute) const {
    return Get<T>(attribute)[0];
  }
  const Descriptor& Part(int attribute) const { return *GetOne<Descriptor*>(attribute); }
};

struct Engine {
  uint64_t notes;
  int64_t workspace;
  bool has_plan;
};
// The engines of the heuristics, best first; the last engine is for mode "fallback". The launcher
// must reject the first five engines, of which the fourth does not have a plan and the fifth needs
// a terabyte.
constexpr int kTensorCores = 5;
constexpr int kFallback = 7;
constexpr Engine kEngines[] = {
    {1u << 4, 0, true},   {1u << 1, 0, true}, {1u << 2, 0, true}, {0, 0, false},
    {0, 1ll << 40, true}, {1, 512, true},     {0, 1024, true},    {0, 0, true},
};

thread_local std::string last_error;

int Fail(int status, const std::string& why) {
  last_error = why;
  return status;
}

Tensor TensorOf(const Descriptor& made) {
  Tensor tensor;
  const auto extents = made.Get<int64_t>(902);
  const auto strides = made.Get<int64_t>(903);
  for (size_t i = 0; i < 4; ++i) {
    tensor.extents[i] = extents[i];
    tensor.strides[i] = strides[i];
  }
  tensor.name = made.GetOne<int64_t>(906);
  tensor.type = made.GetOne<int>(901);
  tensor.is_virtual = made.values.count(907) != 0 && made.GetOne<char>(907) != 0;
  return tensor;
}

Windows WindowsOf(const Descriptor& made) {
  Windows windows;
  for (size_t i = 0; i < 2; ++i) {
    windows.dilations[i] = made.Get<int64_t>(102)[i];
    windows.strides[i] = made.Get<int64_t>(103)[i];
    windows.behind[i] = made.Get<int64_t>(104)[i];
    windows.before[i] = made.Get<int64_t>(105)[i];
  }
  return windows;
}

Operation OperationOf(const Descriptor& made) {
  Operation operation;
  if (made.type == kPointwiseOperation) {
    operation.what = Operation::kAdd;
    operation.x = TensorOf(made.Part(751));
    operation.weight = TensorOf(made.Part(752));
    operation.result = TensorOf(made.Part(753));
    return operation;
  }
  const int first = made.type == kForward ? 700 : made.type == kBackwardData ? 706 : 712;
  operation.what = made.type == kForward        ? Operation::kForward
                   : made.type == kBackwardData ? Operation::kDataGradient
                                                : Operation::kWeightGradient;
  operation.windows = WindowsOf(made.Part(first + 2));
  // The three kinds order their tensors differently: w x y, w dx dy, dw x dy.
  operation.weight = TensorOf(made.Part(first + 3));
  operation.x = TensorOf(made.Part(first + 4));
  operation.result = TensorOf(made.Part(first + 5));
  return operation;
}

int CheckTensor(const Descriptor& made) {
  const auto extents = made.Get<int64_t>(902);
  if (extents.size() != 4 || made.Get<int64_t>(903).size() != 4) {
    return Fail(kNotSupported, "the emulator supports only 4-dimensional tensors");
  }
  for (const int64_t extent : extents) {
    if (extent <= 0) return Fail(kBadParam, "an extent is not positive");
  }
  const int type = made.GetOne<int>(901);
  const bool is_known = type == 0 || type == 2 || type == 9;
  return is_known ? 0 : Fail(kNotSupported, "the emulator does not support this data type");
}

int CheckOperation(const Descriptor& made) {
  const std::string reason = OperationOf(made).FindMismatch();
  return reason.empty() ? 0 : Fail(kShapeMismatch, reason);
}

int Build(Descriptor* made) {
  switch (made->type) {
    case kTensor:
      return CheckTensor(*made);
    case kForward:
    case kBackwardData:
    case kBackwardFilter:
    case kPointwiseOperation:
      return CheckOperation(*made);
    case kPointwise:
      return made->GetOne<int>(0) == 0 ? 0 : Fail(kNotSupported, "the emulator supports only sums");
    case kOperationGraph: {
      auto graph = std::make_shared<OperationGraph>();
      for (const Descriptor* part : made->Get<Descriptor*>(801)) {
        graph->operations.push_back(OperationOf(*part));
      }
      made->graph = graph;
      return 0;
    }
    case kHeuristics:
      made->graph = made->Part(201).graph;
      return 0;
    case kPlan:
      made->engine = made->Part(401).engine;
      made->graph = made->Part(401).graph;
      if (!kEngines[made->engine].has_plan) return Fail(kNotSupported, "this engine has no plan");
      Count("cudnn_plans", 1);
      return 0;
    default:
      return 0;
  }
}

int Offer(const Descriptor& heuristics, int64_t room, int64_t* n, void** elements) {
  const int64_t offered = Setting("cudnn_engines", 0xff);
  const bool is_fallback = heuristics.GetOne<int>(200) == 2;
  *n = 0;
  for (int engine = 0; engine <= kFallback; ++engine) {
    if ((offered >> engine & 1) == 0 || (engine == kFallback) != is_fallback) continue;
    if (elements != nullptr && *n < room) {
      auto* config = static_cast<Descriptor*>(elements[*n]);
      config->engine = engine;
      config->graph = heuristics.graph;
      config->is_final = true;
    }
    ++*n;
  }
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) size_t cudnnGetVersion() { return 92800; }
extern "C" __attribute__((visibility("default"))) size_t cudnnGetCudartVersion() { return 13000; }
extern "C" __attribute__((visibility("default"))) const char* cudnnGetErrorString(int status) {
  static thread_local char text[64];
  std::snprintf(text, sizeof(text), "EMULATED_CUDNN_STATUS_%d", status);
  return text;
}
extern "C" __attribute__((visibility("default"))) void cudnnGetLastErrorString(char* text,
                                                                               size_t bytes) {
  std::snprintf(text, bytes, "%s", last_error.c_str());
}

// A handle stores the last set stream.
EMULATED cudnnCreate(void** handle) {
  if (Setting("cudnn_starts", 1) == 0) return Fail(kNotInitialized, "the emulator was told to");
  *handle = new void*(nullptr);
  return 0;
}
EMULATED cudnnDestroy(void* handle) {
  delete static_cast<void**>(handle);
  return 0;
}
EMULATED cudnnSetStream(void* handle, void* stream) {
  *static_cast<void**>(handle) = stream;
  return 0;
}

EMULATED cudnnBackendCreateDescriptor(int type, void** made) {
  auto* descriptor = new Descriptor;
  descriptor->type = type;
  *made = descriptor;
  Count("cudnn_descriptors", 1);
  return 0;
}
EMULATED cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<Descriptor*>(descriptor);
  Count("cudnn_descriptors", -1);
  return 0;
}

EMULATED cudnnBackendSetAttribute(void* raw, int attribute, int type, int64_t n,
                                  const void* elements) {
  auto* descriptor = static_cast<Descriptor*>(raw);
  if (descriptor->is_final) return Fail(kBadParam, "the descriptor is finalized");
  const Attribute* found = nullptr;
  const std::vector<Attribute> known = AttributesOf(descriptor->type);
  for (const Attribute& one : known) {
    if (one.number == attribute) found = &one;
  }
  if (found == nullptr) return Fail(kBadParam, "the descriptor has no such attribute");
  if (found->type != type) return Fail(kAttributeType, "the elements have a different type");
  if (n < 1) return Fail(kBadParam, "at least one element is required");
  const auto* bytes = static_cast<const char*>(elements);
  descriptor->values[attribute].assign(bytes, bytes + static_cast<size_t>(n) * ElementBytes(type));
  if (type != kDescriptorElement) return 0;
  for (const Descriptor* part : descriptor->Get<Descriptor*>(attribute)) {
    if (!part->is_final) return Fail(kNotFinalized, "a part is not finalized");
  }
  return 0;
}

EMULATED cudnnBackendFinalize(void* raw) {
  auto* descriptor = static_cast<Descriptor*>(raw);
  for (const Attribute& known : AttributesOf(descriptor->type)) {
    if (!known.is_optional && descriptor->values.count(known.number) == 0) {
      return Fail(kBadParam, "attribute " + std::to_string(known.number) + " is not set");
    }
  }
  const int status = Build(descriptor);
  descriptor->is_final = status == 0;
  return status;
}

EMULATED cudnnBackendGetAttribute(void* raw, int attribute, int, int64_t room, int64_t* n,
                                  void* elements) {
  const auto& descriptor = *static_cast<Descriptor*>(raw);
  if (!descriptor.is_final) return Fail(kNotFinalized, "the descriptor is not finalized");
  if (attribute == 202) return Offer(descriptor, room, n, static_cast<void**>(elements));
  *n = 1;
  if (attribute == 300) {
    auto* engine = static_cast<Descriptor*>(*static_cast<void**>(elements));
    engine->engine = descriptor.engine;
    engine->is_final = true;
  } else if (attribute == 1301) {
    *static_cast<int64_t*>(elements) = descriptor.engine;
  } else if (attribute == 402) {
    *static_cast<int64_t*>(elements) = kEngines[descriptor.engine].workspace;
  } else if (attribute == 1303) {
    *n = 0;
    for (int note = 0; note < 10; ++note) {
      if ((kEngines[descriptor.engine].notes >> note & 1) != 0) {
        static_cast<int*>(elements)[(*n)++] = note;
      }
    }
  } else {
    return Fail(kBadParam, "the descriptor has no such attribute");
  }
  return 0;
}

EMULATED cudnnBackendExecute(void* handle, void* plan, void* pack) {
  const auto& planned = *static_cast<Descriptor*>(plan);
  const auto& arguments = *static_cast<Descriptor*>(pack);
  if (!planned.is_final || !arguments.is_final) return Fail(kNotFinalized, "not finalized");
  GraphCall call;
  call.graph = planned.graph;
  call.rounds_to_tf32 = planned.engine == kTensorCores;
  const auto names = arguments.Get<int64_t>(1000);
  const auto pointers = arguments.Get<char*>(1001);
  if (names.size() != pointers.size()) return Fail(kBadParam, "names and pointers differ");
  for (size_t i = 0; i < names.size(); ++i) call.pointers[names[i]] = pointers[i];
  call.workspace = arguments.GetOne<char*>(1003);
  call.workspace_bytes = static_cast<size_t>(kEngines[planned.engine].workspace);
  const std::string reason = call.FindMisuse();
  if (!reason.empty()) return Fail(kBadParam, reason);
  Count("operation_graphs", 1);
  const std::string cost = "cudnn_milliseconds_" + std::to_string(planned.engine);
  const auto milliseconds = static_cast<float>(Setting(cost.c_str(), 1));
  return Enqueue(*static_cast<void**>(handle), [call, milliseconds] {
    Advance(milliseconds);
    return call.Run();
  });
}
