// Calls plugin code; no exception may propagate across this boundary.
#ifndef OPWRIGHT_RUNTIME_BORDER_H_
#define OPWRIGHT_RUNTIME_BORDER_H_

#include <cstdint>
#include <exception>
#include <new>

#include "runtime/library/host.h"
#include "runtime/status.h"

namespace opwright {

// The depth of plugin calls in this thread. The thread-local variable is accessed by a single
// instruction, since it changes in every run of a plan.
extern __thread int32_t n_plugins_entered __attribute__((tls_model("initial-exec")));

// Marks a period when this thread may hold a plugin's locks.
class InsidePlugin {
 public:
  InsidePlugin() noexcept { ++n_plugins_entered; }
  ~InsidePlugin() { --n_plugins_entered; }
  InsidePlugin(const InsidePlugin&) = delete;
  InsidePlugin& operator=(const InsidePlugin&) = delete;

  static bool is_here() noexcept { return n_plugins_entered > 0; }
};

// In a catch block, writes the current exception as a message and returns its status.
inline int32_t CatchAtBorder(char* message, uint64_t message_bytes) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    WriteMessage(message, message_bytes, "out of memory");
    return OW_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    WriteMessage(message, message_bytes,
                 "threw an exception, which plugins must not do: ", error.what());
  } catch (...) {
    WriteMessage(message, message_bytes,
                 "threw an exception, which plugins must not do: not a std::exception");
  }
  return OW_ERROR;
}

// Calls a plugin's function that returns a status, and always NUL-terminates the message.
template <typename Function>
int32_t CallAtBorder(char* message, uint64_t message_bytes, const Function& function) noexcept {
  const InsidePlugin inside;
  int32_t status = OW_ERROR;
  try {
    status = function();
  } catch (...) {
    status = CatchAtBorder(message, message_bytes);
  }
  if (status != OW_OK && message_bytes != 0) message[message_bytes - 1] = '\0';
  return status;
}

// Calls a plugin's function that frees an object; errors are logged.
template <typename Function>
void FreeAtBorder(const char* who, const Function& function) noexcept {
  char message[512] = {0};
  const int32_t status = CallAtBorder(message, sizeof(message), [&function] {
    function();
    return OW_OK;
  });
  if (status == OW_OK) return;
  char text[640] = {0};
  WriteMessage(text, sizeof(text), who, message);
  HostServices()->log(OW_LOG_ERROR, text);
}

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_BORDER_H_
