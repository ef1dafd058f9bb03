#include "cudnn/cudnn.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "driver/trial.h"

namespace opwright_cuda {

namespace {

using Spec = OperationGraphSpec;

// Attributes, from cudnn_graph.h.
constexpr int kPointwiseMode = 0;
constexpr int kPointwisePrecision = 1;
constexpr int kConvolutionCompute = 100;
constexpr int kConvolutionMode = 101;
constexpr int kConvolutionDilations = 102;
constexpr int kConvolutionStrides = 103;
constexpr int kConvolutionPaddingsBehind = 104;
constexpr int kConvolutionPaddingsBefore = 105;
constexpr int kConvolutionSpatialDims = 106;
constexpr int kHeuristicsMode = 200;
constexpr int kHeuristicsGraph = 201;
constexpr int kHeuristicsResults = 202;
constexpr int kHeuristicsProperties = 204;
constexpr int kConfigEngine = 300;
constexpr int kPlanHandle = 400;
constexpr int kPlanConfig = 401;
constexpr int kPlanWorkspace = 402;
constexpr int kPlanProperties = 407;
constexpr int kPointwiseDescription = 750;
constexpr int kPointwiseX = 751;
constexpr int kPointwiseB = 752;
constexpr int kPointwiseY = 753;
constexpr int kGraphHandle = 800;
constexpr int kGraphOperations = 801;
constexpr int kTensorAlignment = 900;
constexpr int kTensorDataType = 901;
constexpr int kTensorExtents = 902;
constexpr int kTensorStrides = 903;
constexpr int kTensorName = 906;
constexpr int kTensorIsVirtual = 907;
constexpr int kPackNames = 1000;
constexpr int kPackPointers = 1001;
constexpr int kPackWorkspace = 1003;
constexpr int kEngineNumber = 1301;
constexpr int kEngineNotes = 1303;
constexpr int kPropertiesText = 2702;

// Enumerators, from cudnn_graph.h.
constexpr int kFloat32 = 0;
constexpr int kCrossCorrelation = 1;
constexpr int kModes[] = {3, 2};  // heuristic modes: A, then the fallback
constexpr int kAddition = 0;      // a point-wise mode

// Bits of the numerical notes of engines.
constexpr uint64_t kTensorCores = 1u << 0;
constexpr uint64_t kConvertsInputsDown = 1u << 1;
constexpr uint64_t kSumsInLowPrecision = 1u << 2;
constexpr uint64_t kNotDeterministic = 1u << 4;

constexpr int64_t kAlignment = 16;  // tensors of a plan have a larger alignment

// The attributes of a convolution operation. The attribute beta (the factor of the old result)
// follows the attribute alpha (the factor of the new result).
struct ConvolutionAttributes {
  int type;
  int alpha;
  int description;
  int x;
  int weight;
  int result;
};
constexpr ConvolutionAttributes kConvolutions[] = {
    {cudnn::kForward, 700, 702, 704, 703, 705},
    {cudnn::kBackwardData, 706, 708, 710, 709, 711},
    {cudnn::kBackwardFilter, 712, 714, 716, 715, 717},
};

std::vector<int64_t> Pair(const std::array<int64_t, 8>& windows, size_t index) {
  return {windows[2 * index], windows[2 * index + 1]};
}

}  // namespace

// -- the graph ------------------------------------------------------------------------------------

Status OperationGraph::DescribeTensor(size_t index, const Spec::Tensor& tensor) {
  CudnnDescriptor made(target_.api, cudnn::kTensor);
  made.SetChoice(kTensorDataType, cudnn::kDataType, tensor.is_virtual ? kFloat32 : spec_.data_type);
  made.SetNumbers(kTensorExtents, {tensor.extents.begin(), tensor.extents.end()});
  made.SetNumbers(kTensorStrides, {tensor.strides.begin(), tensor.strides.end()});
  made.SetNumbers(kTensorAlignment, {kAlignment});
  made.SetNumbers(kTensorName, {static_cast<int64_t>(index) + 1});
  if (tensor.is_virtual) {
    made.SetBool(kTensorIsVirtual, true);
  } else {
    places_.push_back(tensor.place);
    names_.push_back(static_cast<int64_t>(index) + 1);
  }
  const Status status = made.Finalize("describing a tensor");
  parts_.push_back(std::move(made));
  return status;
}

Status OperationGraph::DescribeConvolution(const Spec::Operation& operation,
                                           CudnnDescriptor* described) {
  CudnnDescriptor windows(target_.api, cudnn::kConvolution);
  windows.SetChoice(kConvolutionCompute, cudnn::kDataType, kFloat32);
  windows.SetChoice(kConvolutionMode, cudnn::kConvolutionMode, kCrossCorrelation);
  windows.SetNumbers(kConvolutionStrides, Pair(operation.windows, 0));
  windows.SetNumbers(kConvolutionPaddingsBefore, Pair(operation.windows, 1));
  windows.SetNumbers(kConvolutionPaddingsBehind, Pair(operation.windows, 2));
  windows.SetNumbers(kConvolutionDilations, Pair(operation.windows, 3));
  windows.SetNumbers(kConvolutionSpatialDims, {2});
  OPWRIGHT_RETURN_IF_ERROR(windows.Finalize("describing windows"));
  const ConvolutionAttributes& names = kConvolutions[operation.what];
  const auto tensor = [&](size_t i) {
    return std::vector<void*>{parts_[operation.tensors[i]].raw()};
  };
  CudnnDescriptor made(target_.api, names.type);
  made.SetDescriptors(names.description, {windows.raw()});
  made.SetDescriptors(names.x, tensor(0));
  made.SetDescriptors(names.weight, tensor(1));
  made.SetDescriptors(names.result, tensor(2));
  made.SetFloat(names.alpha, 1.0F);
  made.SetFloat(names.alpha + 1, 0.0F);
  parts_.push_back(std::move(windows));
  *described = std::move(made);
  return described->Finalize("describing a convolution");
}

Status OperationGraph::DescribeSum(const Spec::Operation& operation, CudnnDescriptor* described) {
  CudnnDescriptor mode(target_.api, cudnn::kPointwise);
  mode.SetChoice(kPointwiseMode, cudnn::kPointwiseMode, kAddition);
  mode.SetChoice(kPointwisePrecision, cudnn::kDataType, kFloat32);
  OPWRIGHT_RETURN_IF_ERROR(mode.Finalize("describing a function"));
  CudnnDescriptor made(target_.api, cudnn::kPointwiseOperation);
  made.SetDescriptors(kPointwiseDescription, {mode.raw()});
  constexpr int kOperands[] = {kPointwiseX, kPointwiseB, kPointwiseY};
  for (size_t i = 0; i < operation.tensors.size(); ++i) {
    made.SetDescriptors(kOperands[i], {parts_[operation.tensors[i]].raw()});
  }
  parts_.push_back(std::move(mode));
  *described = std::move(made);
  return described->Finalize("describing a sum");
}

Status OperationGraph::Describe(CudnnDescriptor* graph) {
  for (size_t i = 0; i < spec_.tensors.size(); ++i) {
    OPWRIGHT_RETURN_IF_ERROR(DescribeTensor(i, spec_.tensors[i]));
  }
  std::vector<void*> raw;
  for (const Spec::Operation& operation : spec_.operations) {
    CudnnDescriptor described;
    OPWRIGHT_RETURN_IF_ERROR(operation.what != Spec::kAdd
                                 ? DescribeConvolution(operation, &described)
                                 : DescribeSum(operation, &described));
    raw.push_back(described.raw());
    parts_.push_back(std::move(described));
  }
  *graph = CudnnDescriptor(target_.api, cudnn::kOperationGraph);
  if (target_.handle != nullptr) graph->SetHandle(kGraphHandle, target_.handle);
  graph->SetDescriptors(kGraphOperations, raw);
  return graph->Finalize("putting operations together");
}

// -- the engine -----------------------------------------------------------------------------------

bool OperationGraph::Allows(uint64_t notes) const {
  if ((notes & (kConvertsInputsDown | kSumsInLowPrecision)) != 0) return false;
  if (!spec_.allows_varying && (notes & kNotDeterministic) != 0) return false;
  return spec_.allows_tensor_cores || (notes & kTensorCores) == 0;
}

Status OperationGraph::MakePlan(CudnnDescriptor config, CudnnCandidate* candidate) const {
  CudnnDescriptor engine(target_.api, cudnn::kEngine);
  OPWRIGHT_RETURN_IF_ERROR(config.GetDescriptor(kConfigEngine, &engine));
  CudnnEngine found;
  std::vector<int> notes;
  OPWRIGHT_RETURN_IF_ERROR(engine.GetNumber(kEngineNumber, &found.number));
  OPWRIGHT_RETURN_IF_ERROR(engine.GetChoices(kEngineNotes, cudnn::kNumericalNote, &notes));
  for (const int note : notes) found.notes |= uint64_t{1} << note;
  if (!Allows(found.notes)) {
    return Status::Error("cuDNN: engine ", found.number,
                         " is less exact than asked for, or not deterministic");
  }
  CudnnDescriptor plan(target_.api, cudnn::kPlan);
  if (target_.handle != nullptr) plan.SetHandle(kPlanHandle, target_.handle);
  if (target_.properties != nullptr) plan.SetDescriptors(kPlanProperties, {target_.properties});
  plan.SetDescriptors(kPlanConfig, {config.raw()});
  OPWRIGHT_RETURN_IF_ERROR(plan.Finalize("making a plan"));
  OPWRIGHT_RETURN_IF_ERROR(plan.GetNumber(kPlanWorkspace, &found.workspace));
  if (found.workspace > spec_.most_workspace) {
    return Status::Error("cuDNN: engine ", found.number, " wants ", found.workspace,
                         " bytes of workspace, more than ", spec_.most_workspace);
  }
  *candidate = {found, std::move(config), std::move(plan)};
  return Status::Ok();
}

Status OperationGraph::Collect(const CudnnDescriptor& graph, int mode,
                               std::vector<CudnnCandidate>* found) const {
  CudnnDescriptor heuristics(target_.api, cudnn::kHeuristics);
  heuristics.SetChoice(kHeuristicsMode, cudnn::kHeuristicsMode, mode);
  heuristics.SetDescriptors(kHeuristicsGraph, {graph.raw()});
  if (target_.properties != nullptr) {
    heuristics.SetDescriptors(kHeuristicsProperties, {target_.properties});
  }
  std::vector<CudnnDescriptor> configs;
  OPWRIGHT_RETURN_IF_ERROR(heuristics.Finalize("asking for engines"));
  OPWRIGHT_RETURN_IF_ERROR(
      heuristics.GetDescriptors(kHeuristicsResults, cudnn::kEngineConfig, &configs));
  const size_t most = target_.driver != nullptr ? spec_.most_tried : 1;
  Status last = Status::Ok();
  for (CudnnDescriptor& config : configs) {
    if (found->size() == most) break;
    CudnnCandidate candidate;
    Status made = MakePlan(std::move(config), &candidate);
    if (made.ok()) {
      found->push_back(std::move(candidate));
    } else {
      last = std::move(made);
    }
  }
  return last;
}

uint64_t OperationGraph::BytesOf(const Spec::Tensor& tensor) const {
  int64_t last = 0;
  for (size_t i = 0; i < Spec::kRank; ++i) last += (tensor.extents[i] - 1) * tensor.strides[i];
  return static_cast<uint64_t>(last + 1) * (spec_.data_type == kFloat32 ? 4 : 2);
}

Status OperationGraph::FindFastest(const std::vector<CudnnCandidate>& candidates, size_t* fastest) {
  std::vector<uint64_t> bytes;
  for (const Spec::Tensor& tensor : spec_.tensors) {
    if (!tensor.is_virtual) bytes.push_back(BytesOf(tensor));
  }
  Trial trial(*target_.driver);
  OPWRIGHT_RETURN_IF_ERROR(trial.Start(bytes));
  Status last = Status::Ok();
  float least = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto run = [&](void* workspace, CUstream stream) {
      return Execute(candidates[i].plan, trial.tensors(), workspace, stream);
    };
    float milliseconds = 0;
    const auto workspace = static_cast<uint64_t>(candidates[i].engine.workspace);
    Status timed = trial.Time(workspace, run, &milliseconds);
    if (!timed.ok()) {
      last = std::move(timed);
    } else if (milliseconds < least) {
      least = milliseconds;
      *fastest = i;
    }
  }
  // The handle must not keep the stream, since the stream is destroyed with the trial.
  OPWRIGHT_RETURN_IF_ERROR(
      target_.api.Check(target_.api.SetStream(target_.handle, nullptr), "leaving a stream"));
  return std::isinf(least) ? last : Status::Ok();
}

Status OperationGraph::Choose() {
  CudnnDescriptor graph;
  const Status described = Describe(&graph);
  if (!described.ok()) return Status::Refused(described.message());
  std::string reason = "cuDNN has no engine for this";
  std::vector<CudnnCandidate> candidates;
  for (const int mode : kModes) {
    if (!candidates.empty()) break;
    const Status last = Collect(graph, mode, &candidates);
    if (!last.ok()) reason = "cuDNN has no engine for this; of the last one: " + last.message();
  }
  if (candidates.empty()) return Status::Refused(reason);
  size_t chosen = 0;
  if (candidates.size() > 1) OPWRIGHT_RETURN_IF_ERROR(FindFastest(candidates, &chosen));
  engine_ = candidates[chosen].engine;
  plan_ = std::move(candidates[chosen].plan);
  parts_.push_back(std::move(candidates[chosen].config));
  parts_.push_back(std::move(graph));
  return Status::Ok();
}

// -- a run ----------------------------------------------------------------------------------------

Status OperationGraph::Pack(const std::vector<void*>& pointers, void* workspace) {
  std::vector<void*> packed = pointers;
  packed.push_back(workspace);
  if (pack_.is_made() && packed == packed_) return Status::Ok();
  CudnnDescriptor pack(target_.api, cudnn::kVariantPack);
  pack.SetNumbers(kPackNames, names_);
  pack.SetPointers(kPackPointers, pointers);
  pack.SetPointers(kPackWorkspace, {workspace});
  OPWRIGHT_RETURN_IF_ERROR(pack.Finalize("naming the arguments"));
  pack_ = std::move(pack);
  packed_ = std::move(packed);
  return Status::Ok();
}

Status OperationGraph::Execute(const CudnnDescriptor& plan, const std::vector<void*>& pointers,
                               void* workspace, CUstream stream) {
  const CudnnApi& api = target_.api;
  OPWRIGHT_RETURN_IF_ERROR(Pack(pointers, workspace));
  OPWRIGHT_RETURN_IF_ERROR(api.Check(api.SetStream(target_.handle, stream), "taking a stream"));
  return api.Check(api.Execute(target_.handle, plan.raw(), pack_.raw()), "a convolution");
}

Status OperationGraph::Run(const std::vector<void*>& pointers, void* workspace, CUstream stream) {
  const std::lock_guard<std::mutex> lock(*mutex_);
  return Execute(plan_, pointers, workspace, stream);
}

// -- the library ----------------------------------------------------------------------------------

Status Cudnn::Open(const Driver& driver, std::unique_ptr<Cudnn>* cudnn) {
  const CudnnApi* api = nullptr;
  OPWRIGHT_RETURN_IF_ERROR(OpenCudnn(&api));
  void* handle = nullptr;
  OPWRIGHT_RETURN_IF_ERROR(api->Check(api->Create(&handle), "its start"));
  cudnn->reset(new Cudnn(*api, driver, handle));
  return Status::Ok();
}

Cudnn::~Cudnn() { api_.Destroy(handle_); }

Status Cudnn::Make(const std::vector<int64_t>& record, Spec spec,
                   std::shared_ptr<OperationGraph>* graph) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = made_.begin(); it != made_.end();) {
    it = it->second.expired() ? made_.erase(it) : std::next(it);
  }
  const auto found = made_.find(record);
  *graph = found == made_.end() ? nullptr : found->second.lock();
  if (*graph != nullptr) return Status::Ok();
  const CudnnTarget target{api_, &driver_, handle_, nullptr};
  auto made = std::make_shared<OperationGraph>(target, &mutex_, std::move(spec));
  OPWRIGHT_RETURN_IF_ERROR(made->Choose());
  made_[record] = made;
  *graph = std::move(made);
  return Status::Ok();
}

Status ChooseFor(const std::string& properties, const Spec& spec, CudnnEngine* engine) {
  const CudnnApi* api = nullptr;
  OPWRIGHT_RETURN_IF_ERROR(OpenCudnn(&api));
  CudnnDescriptor described(*api, cudnn::kDeviceProperties);
  described.SetText(kPropertiesText, properties);
  OPWRIGHT_RETURN_IF_ERROR(described.Finalize("reading the description of a GPU"));
  std::mutex mutex;
  OperationGraph graph(CudnnTarget{*api, nullptr, nullptr, described.raw()}, &mutex, spec);
  OPWRIGHT_RETURN_IF_ERROR(graph.Choose());
  *engine = graph.engine();
  return Status::Ok();
}

}  // namespace opwright_cuda
