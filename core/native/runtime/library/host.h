// The services of the runtime for plugins: the table `ow_host`.
#ifndef OPWRIGHT_RUNTIME_HOST_H_
#define OPWRIGHT_RUNTIME_HOST_H_

#include <cstdint>
#include <string>

#include "opwright/abi.h"

namespace opwright {

// Lives as long as the process.
const ow_host* HostServices();

// Limits the threads of kernels' jobs, also of kernels that were prepared for more.
void LimitThreads(int32_t n_threads) noexcept;
// The last limit; 0 before the first.
int32_t ChosenThreads() noexcept;

// Receives the log of plugins from now on; null: stderr.
using LogFunction = void (*)(void* user, int32_t level, const char* message);
void SetLog(LogFunction function, void* user);

// Runs jobs of the calling thread on the OpenMP runtime of a loaded library, from
// now on. Returns whether there is one.
bool UseOpenMp(const std::string& path);

// Writes a NUL-terminated, possibly shortened message of two parts into a frame's buffer.
void WriteMessage(char* buffer, uint64_t buffer_bytes, const char* text,
                  const char* rest = "") noexcept;

// Collects the errors that this thread logs while it exists, instead of showing them: an entry
// function has no other place for its reason.
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
