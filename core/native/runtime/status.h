// Errors inside the runtime: a single exception type; its kind corresponds to a class of
// opwright.errors.
#ifndef OPWRIGHT_RUNTIME_STATUS_H_
#define OPWRIGHT_RUNTIME_STATUS_H_

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace opwright {

enum class ErrorKind {
  kDtype,
  kFeed,
  kFormat,
  kKernel,
  kOutOfMemory,
  kPlugin,
  kProgram,
  kRefused,
  kShape,
  kUnsupported,
  kVariableNotFound,
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

template <typename Part>
void Append(const Part& part, std::string* text) {
  if constexpr (std::is_convertible_v<Part, std::string_view> || std::is_same_v<Part, char>) {
    *text += part;
  } else {
    *text += std::to_string(part);
  }
}

// Formats without streams, which would initialize a locale in every process.
template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::string text;
  (Append(parts, &text), ...);
  return text;
}

template <typename... Parts>
[[noreturn]] void Throw(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, Concat(parts...));
}

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_STATUS_H_
