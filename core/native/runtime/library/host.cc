#include "runtime/library/host.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "runtime/device/host_memory.h"
#include "runtime/library/infer.h"
#include "runtime/plan/instance.h"
#include "runtime/plan/structural.h"
#include "runtime/threads/team.h"

namespace opwright {

namespace {

constexpr size_t kMaxKeptLog = 4096;
thread_local ErrorLog* kept_errors = nullptr;
std::atomic<int32_t> most_threads{Team::kMostThreads};
std::atomic<bool> is_limited{false};
std::mutex log_mutex;
LogFunction log_function = nullptr;  // guarded, like log_user
void* log_user = nullptr;

int32_t Resize(const ow_call* call, uint32_t arg, int32_t ndim, const int64_t* shape) {
  const auto* handle = static_cast<const StepHandle*>(call->run_handle);
  const PlanStep& step = *handle->step;
  const uint32_t n_args = call->slot_begin[call->n_slots];
  const uint32_t first_output = call->slot_begin[step.n_inputs];
  Instance& instance = *handle->instance;
  if (arg < first_output || arg >= n_args ||
      !instance.plan().IsDynamic(instance.ValueOf(step, arg))) {
    const std::string text = Concat("resize: argument ", arg, " must be a dynamic output");
    WriteMessage(call->message, call->message_bytes, text.c_str());
    return OW_ERROR;
  }
  try {
    instance.Resize(instance.ValueOf(step, arg), ndim, shape);
    return OW_OK;
  } catch (const Error& error) {
    WriteMessage(call->message, call->message_bytes, error.what());
    return error.kind() == ErrorKind::kOutOfMemory ? OW_OUT_OF_MEMORY : OW_ERROR;
  } catch (const std::bad_alloc&) {
    WriteMessage(call->message, call->message_bytes, "resize: out of memory");
    return OW_OUT_OF_MEMORY;
  }
}

void* Allocate(uint64_t bytes, uint64_t alignment) { return AllocateHost(bytes, alignment); }

void Deallocate(void* pointer) { FreeHost(pointer); }

bool KeepError(const char* message) {
  if (kept_errors == nullptr) return false;
  std::string& text = kept_errors->text;
  if (text.size() > kMaxKeptLog) return true;
  try {
    text += text.empty() ? "" : "; ";
    text.append(message, strnlen(message, kMaxKeptLog));
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void Log(int32_t level, const char* message) {
  if (message == nullptr || (level >= OW_LOG_ERROR && KeepError(message))) return;
  {
    const std::lock_guard<std::mutex> lock(log_mutex);
    if (log_function != nullptr) {
      log_function(log_user, level, message);
      return;
    }
  }
  const char* name = level >= OW_LOG_ERROR     ? "error"
                     : level >= OW_LOG_WARNING ? "warning"
                     : level >= OW_LOG_INFO    ? "info"
                                               : "debug";
  // Debug messages are shown only on request, since kernels may write them in every run.
  static const bool debug = std::getenv("OPWRIGHT_DEBUG") != nullptr;
  if (level >= OW_LOG_WARNING || debug) std::fprintf(stderr, "opwright: %s: %s\n", name, message);
}

void Parallel(int32_t n_threads, int32_t n_shares, void (*function)(void* data, int32_t share),
              void* data) {
  const int32_t most = most_threads.load(std::memory_order_relaxed);
  Team::OfProcess().Run(std::min(n_threads, most), n_shares, function, data);
}

int32_t PollRun(const ow_call* call) {
  return Poll(static_cast<const StepHandle*>(call->run_handle)->instance->state());
}

ow_host MakeHost() {
  ow_host host{};
  host.size = sizeof(host);
  host.abi_major = OW_ABI_MAJOR;
  host.abi_minor = OW_ABI_MINOR;
  host.core_version = OPWRIGHT_VERSION;
  host.resize = Resize;
  host.allocate = Allocate;
  host.deallocate = Deallocate;
  host.log = Log;
  host.set_output = SetInferredOutput;
  host.parallel = Parallel;
  host.poll = PollRun;
  return host;
}

}  // namespace

void LimitThreads(int32_t n_threads) noexcept {
  most_threads.store(n_threads, std::memory_order_relaxed);
  is_limited.store(true, std::memory_order_relaxed);
}

int32_t ChosenThreads() noexcept {
  return is_limited.load(std::memory_order_relaxed) ? most_threads.load(std::memory_order_relaxed)
                                                    : 0;
}

void SetLog(LogFunction function, void* user) {
  const std::lock_guard<std::mutex> lock(log_mutex);
  log_function = function;
  log_user = user;
}

bool UseOpenMp(const std::string& path) {
  const HostThreads::Parallel parallel = HostThreads::FindIn(path.c_str());
  if (parallel != nullptr) Team::OfProcess().UseHost(HostThreads(parallel));
  return parallel != nullptr;
}

const ow_host* HostServices() {
  static const ow_host host = MakeHost();
  return &host;
}

void WriteMessage(char* buffer, uint64_t buffer_bytes, const char* text,
                  const char* rest) noexcept {
  if (buffer != nullptr && buffer_bytes != 0) {
    std::snprintf(buffer, buffer_bytes, "%s%s", text, rest);
  }
}

ErrorLog::ErrorLog() : outer_(kept_errors) { kept_errors = this; }

ErrorLog::~ErrorLog() { kept_errors = outer_; }

}  // namespace opwright
