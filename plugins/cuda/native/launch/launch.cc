#include "launch/launch.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <opwright/sdk/attributes.hpp>

#include "blas/blas.h"
#include "cudnn/cudnn.h"
#include "device/device.h"
#include "numbers.h"

namespace opwright_cuda {

namespace {

using opwright::AttributeReader;
using opwright::detail::AtBorder;

struct Fixup {
  int64_t argument;
  int64_t offset;
  size_t place;
};

struct Action {
  explicit Action(ActionCode what) : code(what) {}

  ActionCode code;
  // The following fields are used by a launch.
  CUkernel kernel = nullptr;
  unsigned grid[3] = {0, 0, 0};
  unsigned block[3] = {0, 0, 0};
  unsigned shared_bytes = 0;
  size_t first_param = 0;  // index in Prepared::places
  // The following fields are used by a fill; "unless same" uses them for its two pointers.
  size_t pointer = 0;  // place in the constants
  uint64_t bytes = 0;
  unsigned char value = 0;
  size_t other = 0;  // place in the constants
  // This field is used by a product.
  std::unique_ptr<Product> product;
  // This field is used by an operation graph.
  std::shared_ptr<OperationGraph> graph;
};

struct Prepared {
  Device* device = nullptr;
  std::string name;
  std::string constants;
  std::vector<Fixup> fixups;
  std::vector<size_t> places;  // offsets of the parameters of all launches
  std::vector<Action> actions;
  uint64_t graph_workspace = 0;  // offset and size of cuDNN's part of the workspace
  uint64_t graph_workspace_bytes = 0;
};

// The kernel parameters of one running instance, which the driver reads in each launch.
struct Bound {
  std::vector<uint64_t> constants;
  std::vector<void*> params;
  char* graph_workspace = nullptr;

  char* at(size_t place) { return reinterpret_cast<char*>(constants.data()) + place; }
  CUdeviceptr pointer(size_t place) {
    CUdeviceptr address = 0;
    std::memcpy(&address, at(place), sizeof(address));
    return address;
  }
};

Action ReadLaunch(Numbers* numbers, Prepared* made) {
  Action action(kLaunch);
  action.kernel = reinterpret_cast<CUkernel>(numbers->Next());
  for (unsigned& extent : action.grid) extent = numbers->Next<unsigned>(uint64_t{1} << 31);
  for (unsigned& extent : action.block) extent = numbers->Next<unsigned>(1025);
  action.shared_bytes = numbers->Next<unsigned>(uint64_t{1} << 31);
  const auto n = numbers->Next<size_t>(4096);
  action.first_param = made->places.size();
  for (size_t i = 0; i < n; ++i) {
    made->places.push_back(numbers->Next<size_t>(made->constants.size()));
  }
  return action;
}

Action ReadFill(Numbers* numbers, const Prepared& made) {
  Action action(kFill);
  action.pointer = numbers->NextPlace(made.constants.size());
  action.bytes = numbers->Next<uint64_t>(INT64_MAX);
  action.value = numbers->Next<unsigned char>(256);
  return action;
}

Action ReadUnlessSame(Numbers* numbers, const Prepared& made) {
  Action action(kUnlessSame);
  action.pointer = numbers->NextPlace(made.constants.size());
  action.other = numbers->NextPlace(made.constants.size());
  return action;
}

Status ReadProduct(Numbers* numbers, const Prepared& made, Action* action) {
  ProductSpec spec;
  for (int64_t& number : spec.numbers) number = numbers->Next();
  for (size_t& place : spec.pointers) place = numbers->NextPlace(made.constants.size());
  const Blas* blas = nullptr;
  OPWRIGHT_RETURN_IF_ERROR(made.device->GetBlas(&blas));
  const Current current(*made.device);
  return blas->Make(spec, &action->product);
}

Status ReadGraph(Numbers* numbers, Prepared* made, Action* action) {
  const size_t begin = numbers->position();
  OperationGraphSpec spec = ReadOperationGraph(numbers, made->constants.size());
  Cudnn* cudnn = nullptr;
  const Status started = made->device->GetCudnn(&cudnn);
  if (!started.ok()) return Status::Refused(started.message());
  const Current current(*made->device);
  OPWRIGHT_RETURN_IF_ERROR(cudnn->Make(numbers->ReadSince(begin), std::move(spec), &action->graph));
  const auto wanted = static_cast<uint64_t>(action->graph->engine().workspace);
  made->graph_workspace_bytes = std::max(made->graph_workspace_bytes, wanted);
  return Status::Ok();
}

Status ReadActions(const std::vector<int64_t>& record, Prepared* made) {
  Numbers numbers(record);
  while (!numbers.done()) {
    switch (numbers.Next()) {
      case kLaunch:
        made->actions.push_back(ReadLaunch(&numbers, made));
        break;
      case kFill:
        made->actions.push_back(ReadFill(&numbers, *made));
        break;
      case kUnlessSame:
        made->actions.push_back(ReadUnlessSame(&numbers, *made));
        break;
      case kProduct: {
        Action action(kProduct);
        OPWRIGHT_RETURN_IF_ERROR(ReadProduct(&numbers, *made, &action));
        made->actions.push_back(std::move(action));
        break;
      }
      case kOperationGraph: {
        Action action(kOperationGraph);
        OPWRIGHT_RETURN_IF_ERROR(ReadGraph(&numbers, made, &action));
        made->actions.push_back(std::move(action));
        break;
      }
      default:
        return Status::Error("cuda.launch: the record has an unknown action");
    }
  }
  return Status::Ok();
}

void ReadFixups(const std::vector<int64_t>& record, uint64_t n_args, Prepared* made) {
  Numbers numbers(record);
  while (!numbers.done()) {
    Fixup fixup;
    fixup.argument = numbers.Next();
    if (fixup.argument < kFaultArgument || fixup.argument >= static_cast<int64_t>(n_args)) {
      throw opwright::Exception("cuda.launch: an argument must be in [-2, ", n_args, "), got ",
                                fixup.argument);
    }
    fixup.offset = numbers.Next();
    fixup.place = numbers.NextPlace(made->constants.size());
    made->fixups.push_back(fixup);
  }
}

int32_t Prepare(ow_prepare* prepare) noexcept {
  return AtBorder(prepare->message, prepare->message_bytes, [prepare]() -> Status {
    auto made = std::make_unique<Prepared>();
    made->device = static_cast<Device*>(prepare->device_state);
    const AttributeReader reader(prepare->attrs, prepare->n_attrs, prepare->attr_stride);
    std::vector<int64_t> fixups;
    std::vector<int64_t> actions;
    int64_t workspace = 0;
    int64_t estimate = 0;
    OPWRIGHT_RETURN_IF_ERROR(reader.Get("name", &made->name));
    OPWRIGHT_RETURN_IF_ERROR(reader.Get("constants", &made->constants));
    OPWRIGHT_RETURN_IF_ERROR(reader.GetArray("fixups", &fixups));
    OPWRIGHT_RETURN_IF_ERROR(reader.GetArray("actions", &actions));
    OPWRIGHT_RETURN_IF_ERROR(reader.Get("workspace", &workspace));
    OPWRIGHT_RETURN_IF_ERROR(reader.Get("estimate", &estimate));
    OPWRIGHT_ENFORCE(workspace >= 0 && estimate >= 0,
                     "cuda.launch: workspace and estimate must be at least 0");
    ReadFixups(fixups, prepare->slot_begin[prepare->n_slots], made.get());
    OPWRIGHT_RETURN_IF_ERROR(ReadActions(actions, made.get()));
    prepare->workspace_bytes = static_cast<uint64_t>(workspace);
    if (made->graph_workspace_bytes > 0) {
      // The graphs of one record run one after another and share memory.
      made->graph_workspace = (prepare->workspace_bytes + kWorkspaceAlignment - 1) /
                              kWorkspaceAlignment * kWorkspaceAlignment;
      prepare->workspace_bytes = made->graph_workspace + made->graph_workspace_bytes;
    }
    prepare->estimate_ns = static_cast<uint64_t>(estimate);
    if (made->device->is_blocking()) prepare->out_flags |= OW_PREPARED_NOT_CAPTURABLE;
    prepare->prepared = made.release();
    return Status::Ok();
  });
}

void Release(void* prepared) noexcept { delete static_cast<Prepared*>(prepared); }

int32_t Bind(const ow_call* call, void** bound) noexcept {
  return AtBorder(call->message, call->message_bytes, [call, bound]() -> Status {
    const auto& made = *static_cast<const Prepared*>(call->prepared);
    auto state = std::make_unique<Bound>();
    state->constants.resize((made.constants.size() + 7) / 8);
    std::copy(made.constants.begin(), made.constants.end(), state->at(0));
    for (const size_t place : made.places) state->params.push_back(state->at(place));
    *bound = state.release();
    return Status::Ok();
  });
}

void Unbind(void*, void* bound) noexcept { delete static_cast<Bound*>(bound); }

void FillIn(const ow_call* call, const Prepared& made, Bound* bound) {
  for (const Fixup& fixup : made.fixups) {
    uint64_t base = made.device->fault_pointer();
    if (fixup.argument == kWorkspaceArgument) {
      base = reinterpret_cast<uint64_t>(call->workspace);
    } else if (fixup.argument >= 0) {
      const DLTensor& tensor = *call->args[fixup.argument];
      base = reinterpret_cast<uint64_t>(tensor.data) + tensor.byte_offset;
    }
    const uint64_t address = base + static_cast<uint64_t>(fixup.offset);
    std::memcpy(bound->at(fixup.place), &address, sizeof(address));
  }
  if (made.graph_workspace_bytes > 0) {
    bound->graph_workspace = static_cast<char*>(call->workspace) + made.graph_workspace;
  }
}

Status Do(const Action& action, const Prepared& made, Bound* bound, CUstream stream) {
  const Driver& api = made.device->driver();
  switch (action.code) {
    case kLaunch: {
      const CUresult result =
          api.LaunchKernel(action.kernel, action.grid[0], action.grid[1], action.grid[2],
                           action.block[0], action.block[1], action.block[2], action.shared_bytes,
                           stream, bound->params.data() + action.first_param, nullptr);
      if (result == kSuccess) return Status::Ok();
      return Status::Error("CUDA: the launch of ", made.name, " with grid (", action.grid[0], ", ",
                           action.grid[1], ", ", action.grid[2], ") and block (", action.block[0],
                           ", ", action.block[1], ", ", action.block[2], ") failed with ",
                           ErrorText(api, result));
    }
    case kFill:
      return Check(
          api,
          api.MemsetD8Async(bound->pointer(action.pointer), action.value, action.bytes, stream),
          "filling memory");
    case kUnlessSame:
      return Status::Ok();  // Run compares the pointers
    case kProduct: {
      void* pointers[Product::kPointers];
      for (size_t i = 0; i < Product::kPointers; ++i) {
        pointers[i] = reinterpret_cast<void*>(bound->pointer(action.product->places()[i]));
      }
      return action.product->Run(pointers, stream);
    }
    case kOperationGraph: {
      std::vector<void*> pointers;
      for (const size_t place : action.graph->places()) {
        pointers.push_back(reinterpret_cast<void*>(bound->pointer(place)));
      }
      return action.graph->Run(pointers, bound->graph_workspace, stream);
    }
  }
  return Status::Ok();
}

int32_t Run(const ow_call* call) noexcept {
  return AtBorder(call->message, call->message_bytes, [call]() -> Status {
    const auto& made = *static_cast<const Prepared*>(call->prepared);
    auto* bound = static_cast<Bound*>(call->bound);
    auto* stream = static_cast<CUstream>(call->stream);
    const Current current(*made.device);
    FillIn(call, made, bound);
    bool is_left_out = false;
    for (const Action& action : made.actions) {
      if (!is_left_out) OPWRIGHT_RETURN_IF_ERROR(Do(action, made, bound, stream));
      is_left_out = action.code == kUnlessSame &&
                    bound->pointer(action.pointer) == bound->pointer(action.other);
    }
    return made.device->is_blocking() ? made.device->Wait(stream) : Status::Ok();
  });
}

}  // namespace

ow_kernel LaunchKernelTable() {
  ow_kernel table{};
  table.size = sizeof(table);
  table.op_type = "cuda.launch";
  table.device = "cuda";
  table.priority = 50;
  table.flags = OW_KERNEL_CAPTURABLE;
  table.prepare = Prepare;
  table.release = Release;
  table.bind = Bind;
  table.unbind = Unbind;
  table.run = Run;
  return table;
}

}  // namespace opwright_cuda
