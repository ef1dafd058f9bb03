#include "kernels.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

namespace {

int64_t Count(const DLTensor* tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor->ndim; ++i) count *= tensor->shape[i];
  return count;
}

template <typename T>
T* Data(const ow_call* call, uint32_t arg) {
  return static_cast<T*>(call->args[arg]->data);
}

int32_t Say(const ow_call* call, const char* text) {
  std::snprintf(call->message, call->message_bytes, "%s", text);
  return OW_ERROR;
}

// Computes out = x + y in float32.
int32_t Add(const ow_call* call) {
  const float* x = Data<float>(call, 0);
  const float* y = Data<float>(call, 1);
  float* out = Data<float>(call, 2);
  const int64_t count = Count(call->args[2]);
  for (int64_t i = 0; i < count; ++i) out[i] = x[i] + y[i];
  return OW_OK;
}

// Computes out = factor * x; prepare reads the factor from an attribute.
struct Scale {
  float factor;
};

int32_t PrepareScale(ow_prepare* prepare) {
  for (uint64_t i = 0; i < prepare->n_attrs; ++i) {
    const ow_attr* attr = OW_AT(ow_attr, prepare->attrs, prepare->attr_stride, i);
    if (std::strcmp(attr->name, "factor") != 0 || attr->type != OW_ATTR_FLOAT) continue;
    prepare->prepared = new Scale{static_cast<float>(attr->float_value)};
    prepare->estimate_ns = 1000;
    prepare->workspace_bytes = 128;
    return OW_OK;
  }
  std::snprintf(prepare->message, prepare->message_bytes, "factor is missing");
  return OW_ERROR;
}

void ReleaseScale(void* prepared) { delete static_cast<Scale*>(prepared); }

int32_t RunScale(const ow_call* call) {
  const float factor = static_cast<const Scale*>(call->prepared)->factor;
  auto* scratch = static_cast<float*>(call->workspace);
  if (call->workspace_bytes < 128 || reinterpret_cast<uintptr_t>(scratch) % 64 != 0) {
    return Say(call, "no workspace");
  }
  scratch[31] = factor;
  const float* x = Data<float>(call, 0);
  float* out = Data<float>(call, 1);
  const int64_t count = Count(call->args[1]);
  for (int64_t i = 0; i < count; ++i) out[i] = scratch[31] * x[i];
  return OW_OK;
}

// Fails if the first element of its input is not zero.
int32_t Fail(const ow_call* call) {
  if (Data<float>(call, 0)[0] != 0) return Say(call, "told to fail");
  Data<float>(call, 1)[0] = 0;
  return OW_OK;
}

int32_t Refuse(ow_prepare* prepare) {
  std::snprintf(prepare->message, prepare->message_bytes, "%d threads are too many",
                prepare->n_threads);
  return OW_REFUSED;
}

// Returns the positions of nonzero elements as int64; the output length is determined in run.
int32_t Nonzero(const ow_call* call) {
  const float* x = Data<float>(call, 0);
  const int64_t count = Count(call->args[0]);
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) found += x[i] != 0;
  const int32_t status = call->host->resize(call, 1, 1, &found);
  if (status != OW_OK) return status;
  int64_t* out = Data<int64_t>(call, 1);
  for (int64_t i = 0, j = 0; i < count; ++i) {
    if (x[i] != 0) out[j++] = i;
  }
  return OW_OK;
}

// Declares a dynamic output but never resizes it.
int32_t Lazy(const ow_call*) { return OW_OK; }

// Computes out = x + w; the packed form of w is -w.
int32_t PreparePacked(ow_prepare* prepare) {
  if ((prepare->arg_flags[1] & OW_ARG_PACKABLE) == 0) {
    std::snprintf(prepare->message, prepare->message_bytes, "w must be packable");
    return OW_REFUSED;
  }
  prepare->packs[0] = {1, 256, static_cast<uint64_t>(Count(prepare->args[1])) * sizeof(float)};
  prepare->n_packs = 1;
  return OW_OK;
}

void ReleaseNothing(void*) {}

int32_t PackNegative(const ow_call*, uint32_t, const DLTensor* source, void* destination) {
  const auto* from = static_cast<const float*>(source->data);
  for (int64_t i = 0; i < Count(source); ++i) static_cast<float*>(destination)[i] = -from[i];
  return OW_OK;
}

int32_t RunPacked(const ow_call* call) {
  const float* x = Data<float>(call, 0);
  const float* packed = Data<float>(call, 1);
  if (reinterpret_cast<uintptr_t>(packed) % 256 != 0) return Say(call, "packed copy not aligned");
  float* out = Data<float>(call, 2);
  for (int64_t i = 0; i < Count(call->args[2]); ++i) out[i] = x[i] - packed[i];
  return OW_OK;
}

// Computes out = x + runs, where runs is the number of previous runs of the instance.
int32_t BindCopy(const ow_call*, void** bound) {
  *bound = new std::atomic<int>(0);
  return OW_OK;
}

void UnbindCopy(void*, void* bound) { delete static_cast<std::atomic<int>*>(bound); }

int32_t RunCopy(const ow_call* call) {
  const int runs = static_cast<std::atomic<int>*>(call->bound)->fetch_add(1);
  const float* x = Data<float>(call, 0);
  float* out = Data<float>(call, 1);
  for (int64_t i = 0; i < Count(call->args[1]); ++i) out[i] = x[i] + static_cast<float>(runs);
  return OW_OK;
}

// Computes out = x[0] < y[0] as bool.
int32_t Less(const ow_call* call) {
  Data<uint8_t>(call, 2)[0] = Data<float>(call, 0)[0] < Data<float>(call, 1)[0] ? 1 : 0;
  return OW_OK;
}

std::atomic<bool> waiting{false};
std::atomic<bool> released{false};

// Runs until another thread calls let_go; fails after a minute, so a test cannot hang.
int32_t Wait(const ow_call* call) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  waiting = true;
  while (!released && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  waiting = false;
  return released.exchange(false) ? OW_OK : Say(call, "no other thread ran");
}

ow_kernel Make(const char* op_type, ow_run_fn run) {
  ow_kernel kernel{};
  kernel.size = sizeof(kernel);
  kernel.op_type = op_type;
  kernel.device = "cpu";
  kernel.priority = 50;
  kernel.run = run;
  return kernel;
}

}  // namespace

int is_waiting() { return waiting; }

void let_go() { released = true; }

const ow_kernel* find_kernel(const char* name) {
  static const ow_kernel kernels[] = {
      Make("add", Add),
      Make("wait", Wait),
      [] {
        ow_kernel kernel = Make("scale", RunScale);
        kernel.prepare = PrepareScale;
        kernel.release = ReleaseScale;
        return kernel;
      }(),
      Make("fail", Fail),
      [] {
        ow_kernel kernel = Make("refuse", Lazy);
        kernel.prepare = Refuse;
        kernel.release = ReleaseNothing;
        return kernel;
      }(),
      Make("nonzero", Nonzero),
      Make("lazy", Lazy),
      [] {
        ow_kernel kernel = Make("packed_add", RunPacked);
        kernel.prepare = PreparePacked;
        kernel.release = ReleaseNothing;
        kernel.pack = PackNegative;
        return kernel;
      }(),
      [] {
        ow_kernel kernel = Make("bound_copy", RunCopy);
        kernel.bind = BindCopy;
        kernel.unbind = UnbindCopy;
        return kernel;
      }(),
      Make("less", Less),
  };
  for (const ow_kernel& kernel : kernels) {
    if (std::strcmp(kernel.op_type, name) == 0) return &kernel;
  }
  return nullptr;
}
