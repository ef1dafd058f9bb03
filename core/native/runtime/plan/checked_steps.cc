#include "runtime/plan/checked_steps.h"

#include <algorithm>
#include <cstring>

#include "runtime/library/host.h"
#include "runtime/plan/instance.h"

namespace opwright {

namespace {

// A kernel may write one mark of a short integer by chance, but not several consecutive marks.
constexpr int64_t kLongRunBytes = 8;
constexpr int64_t kLeastRunBytes = 4;

bool IsShortInteger(DLDataType dtype) {
  return (dtype.code == kDLInt || dtype.code == kDLUInt) && dtype.bits <= 16;
}

// Returns the bits of a mark: a NaN that no arithmetic produces, an invalid bool, a negative number
// with many digits, or for short integers a value that differs at each index.
uint64_t MarkOf(DLDataType dtype, int64_t place) {
  if (IsShortInteger(dtype)) return (static_cast<uint64_t>(place) + 1) * 0x9E3779B97F4A7C15u >> 40;
  if (dtype.code == kDLBfloat) return 0xFFCD;
  if (dtype.code != kDLFloat) return 0xCDCDCDCDCDCDCDCD;
  return dtype.bits == 16 ? 0xFECD : dtype.bits == 32 ? 0xFFCDCDCD : 0xFFFDCDCDCDCDCDCD;
}

// Calls function(T*) with an unsigned integer type T of an element's size.
template <typename Function>
void WithElements(const DLTensor& tensor, const Function& function) {
  switch (ItemSize(tensor.dtype)) {
    case 1:
      return function(static_cast<uint8_t*>(tensor.data));
    case 2:
      return function(static_cast<uint16_t*>(tensor.data));
    case 4:
      return function(static_cast<uint32_t*>(tensor.data));
    default:
      return function(static_cast<uint64_t*>(tensor.data));
  }
}

// The elements that still have their marks, in runs that are too long to be a coincidence.
struct Marked {
  int64_t count = 0;
  int64_t first = -1;
};

Marked FindMarked(const DLTensor& tensor) {
  const int64_t n = Numel(tensor);
  const int64_t item = ItemSize(tensor.dtype);
  int64_t least_run = 1;
  if (IsShortInteger(tensor.dtype)) {
    least_run = std::max(kLeastRunBytes / item, std::min(kLongRunBytes / item, n));
  }
  Marked marked;
  WithElements(tensor, [&](const auto* data) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(data)>>;
    int64_t run = 0;
    for (int64_t i = 0; i <= n; ++i) {
      if (i < n && data[i] == static_cast<T>(MarkOf(tensor.dtype, i))) {
        ++run;
        continue;
      }
      if (run >= least_run) {
        if (marked.count == 0) marked.first = i - run;
        marked.count += run;
      }
      run = 0;
    }
  });
  return marked;
}

bool Overlap(const DLTensor& a, uint64_t a_bytes, const DLTensor& b, uint64_t b_bytes) {
  const auto* first = static_cast<const char*>(a.data);
  const auto* second = static_cast<const char*>(b.data);
  return first < second + b_bytes && second < first + a_bytes;
}

// Checks the outputs of one step. Outputs with their own memory are marked before the kernel runs,
// dynamic outputs when the kernel resizes them.
class Outputs {
 public:
  Outputs(const Instance& instance, const PlanStep& step, const ow_call& call)
      : instance_(instance),
        step_(step),
        call_(call),
        begin_(call.slot_begin[step.n_inputs]),
        end_(call.slot_begin[step.n_slots]) {
    for (uint32_t arg = begin_; arg < end_; ++arg) {
      if (IsAlone(arg)) alone_.push_back(arg);
    }
  }

  void Mark() const {
    for (const uint32_t arg : alone_) MarkUnwritten(TensorOf(arg));
  }

  // Describes the unwritten elements; empty if there are none.
  std::string FindUnwritten() const {
    std::vector<uint32_t> watched = alone_;
    for (uint32_t arg = begin_; arg < end_; ++arg) {
      if (IsResized(arg)) watched.push_back(arg);
    }
    for (const uint32_t arg : watched) {
      const DLTensor tensor = TensorOf(arg);
      const Marked marked = FindMarked(tensor);
      if (marked.count == 0) continue;
      return Concat("every element of an output must be written, got ", marked.count, " of ",
                    Numel(tensor), " of output ", arg - begin_, " left unwritten, the first at ",
                    marked.first, "; write them too");
    }
    return "";
  }

 private:
  uint32_t ValueOf(uint32_t arg) const { return instance_.ValueOf(step_, arg); }
  const Value& InfoOf(uint32_t arg) const { return instance_.plan().values[ValueOf(arg)]; }
  DLTensor TensorOf(uint32_t arg) const {
    return instance_.Restored(ValueOf(arg), *call_.args[arg]);
  }
  bool IsResized(uint32_t arg) const {
    const bool is_dynamic = instance_.plan().IsDynamic(ValueOf(arg));
    return is_dynamic && instance_.WasResized(ValueOf(arg)) && call_.args[arg]->data != nullptr;
  }
  bool IsAlone(uint32_t arg) const {
    const Value& info = InfoOf(arg);
    if (info.bytes == 0 || !info.compact || call_.args[arg]->data == nullptr) return false;
    for (uint32_t other = 0; other < end_; ++other) {
      const DLTensor& tensor = *call_.args[other];
      const bool is_there = other != arg && tensor.data != nullptr;
      if (is_there && Overlap(*call_.args[arg], info.bytes, tensor, InfoOf(other).bytes)) {
        return false;
      }
    }
    return true;
  }

  const Instance& instance_;
  const PlanStep& step_;
  const ow_call& call_;
  uint32_t begin_;
  uint32_t end_;
  std::vector<uint32_t> alone_;
};

std::string RunMarked(const Outputs& outputs, const ow_call* call, const PlanStep& step,
                      int32_t* status) {
  constexpr int kWorkspaceMark = 0xCD;
  if (call->workspace != nullptr)
    std::memset(call->workspace, kWorkspaceMark, call->workspace_bytes);
  outputs.Mark();
  *status = step.run(call);
  return *status == OW_OK ? outputs.FindUnwritten() : "";
}

}  // namespace

ShownTensors::ShownTensors(const Instance& instance, const PlanStep& step, const ow_call& call)
    : instance_(instance), step_(step), call_(call) {
  const uint32_t n_args = call.slot_begin[call.n_slots];
  for (uint32_t arg = 0; arg < n_args; ++arg) before_.push_back(*call.args[arg]);
}

bool ShownTensors::HasChanged(uint32_t arg) const {
  const DLTensor& now = *call_.args[arg];
  const DLTensor& before = before_[arg];
  const uint32_t value = instance_.ValueOf(step_, arg);
  const bool may_move = instance_.plan().IsDynamic(value);
  const int64_t* dims = instance_.dims(value);
  return now.ndim != before.ndim || !SameDtype(now.dtype, before.dtype) ||
         now.device.device_type != before.device.device_type ||
         now.device.device_id != before.device.device_id || now.byte_offset != before.byte_offset ||
         now.shape != before.shape || now.strides != before.strides ||
         (now.data != before.data && !may_move) ||
         !std::equal(dims, dims + 2 * before.ndim, before.shape);
}

std::string ShownTensors::Restore() const {
  const uint32_t first_output = call_.slot_begin[step_.n_inputs];
  std::string found;
  for (uint32_t arg = 0; arg < before_.size(); ++arg) {
    if (!HasChanged(arg)) continue;
    DLTensor& now = *call_.args[arg];
    const DLTensor& before = before_[arg];
    const uint32_t value = instance_.ValueOf(step_, arg);
    const int64_t* dims = instance_.dims(value);
    if (found.empty()) {
      const bool is_output = arg >= first_output;
      const bool is_shape = now.ndim == before.ndim && now.shape == before.shape &&
                            !std::equal(dims, dims + before.ndim, now.shape);
      found = Concat("a kernel must not change the tensors of its arguments, got another ",
                     is_shape ? Concat("shape, ", ShapeText(now.shape, now.ndim), " for ",
                                       ShapeText(dims, before.ndim), ", in ")
                              : "field in ",
                     is_output ? "output " : "input ", is_output ? arg - first_output : arg,
                     "; write only where data points");
    }
    void* data = instance_.plan().IsDynamic(value) ? now.data : before.data;
    now = before;
    now.data = data;
    std::copy(dims, dims + 2 * before.ndim, before.shape);
  }
  return found;
}

void MarkUnwritten(const DLTensor& tensor) {
  const int64_t n = Numel(tensor);
  WithElements(tensor, [&](auto* data) {
    using T = std::remove_pointer_t<decltype(data)>;
    for (int64_t i = 0; i < n; ++i) data[i] = static_cast<T>(MarkOf(tensor.dtype, i));
  });
}

int32_t RunChecked(const ow_call* call) {
  const auto* handle = static_cast<const StepHandle*>(call->run_handle);
  const Instance& instance = *handle->instance;
  const PlanStep& step = *handle->step;
  const ShownTensors shown(instance, step, *call);
  int32_t status = OW_OK;
  std::string fault;
  if ((instance.plan().checks & kCheckOutputs) != 0) {
    fault = RunMarked(Outputs(instance, step, *call), call, step, &status);
  } else {
    status = step.run(call);
  }
  const std::string change = shown.Restore();
  if (!change.empty()) fault = change;
  if (status != OW_OK || fault.empty()) return status;
  WriteMessage(call->message, call->message_bytes, fault.c_str());
  return OW_ERROR;
}

}  // namespace opwright
