// The table `ow_host` with the services that the runtime provides to plugins.
#ifndef OPWRIGHT_RUNTIME_HOST_H_
#define OPWRIGHT_RUNTIME_HOST_H_

#include <cstdint>
#include <string>

#include "opwright/abi.h"

namespace opwright {

// The table exists as long as the process.
const ow_host* HostServices();

// Limits the threads of kernels' jobs, including kernels that were prepared for more threads.
void LimitThreads(int32_t n_threads) noexcept;
// Returns the last limit, or 0 if no limit has been set.
int32_t ChosenThreads() noexcept;

// The function that receives log messages of plugins from now on; null stands for stderr.
using LogFunction = void (*)(void* user, int32_t level, const char* message);
void SetLog(LogFunction function, void* user);

// Runs jobs of the calling thread on the OpenMP runtime of a loaded library from now on. Returns
// whether the library has an OpenMP runtime.
bool UseOpenMp(const std::string& path);

// Joins two strings into a NUL-terminated, possibly truncated message in a frame's buffer.
void WriteMessage(char* buffer, uint64_t buffer_bytes, const char* text,
                  const char* rest = "") noexcept;

// While an object exists, errors that this thread logs are collected instead of shown, since an
// entry function can report the reason for its failure only through the log.
class ErrorLog {
 public:
  ErrorLog();
  ~ErrorLog();
  ErrorLog(const ErrorLog&) = delete;
  ErrorLog& operator=(const ErrorLog&) = delete;

  std::string text;  // the messages, joined by "; "

 private:
  ErrorLog* outer_;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_HOST_H_
