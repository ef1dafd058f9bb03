// Status, the result of a plugin's functions, and the conversion of exceptions into it.
#ifndef OPWRIGHT_SDK_STATUS_HPP_
#define OPWRIGHT_SDK_STATUS_HPP_

#include <cstring>
#include <locale>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "opwright/abi.h"

// Symbols with state are hidden: two plugins may both have a `Cosine`, and g++ would unite the
// function-local statics of equal names in one process, even between private
// libraries.
#define OPWRIGHT_LOCAL __attribute__((visibility("hidden")))

// Code that runs once for each plan, or after a failure: compiled for size, which compiles faster.
#define OPWRIGHT_COLD __attribute__((cold))

namespace opwright {

namespace detail {

// Concatenates the parts of a message as std::ostream writes them.
template <typename... Parts>
OPWRIGHT_COLD std::string Concat(const Parts&... parts) {
  std::ostringstream text;
  text.imbue(std::locale::classic());  // messages must not depend on the locale
  text << std::boolalpha;
  (text << ... << parts);
  return text.str();
}

}  // namespace detail

// Success, or the reason of a failure. As large as a pointer, and success allocates nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(int32_t code, std::string message)
      : failure_(code == OW_OK ? nullptr : new Failure{code, std::move(message)}) {}
  Status(const Status& other) : failure_(other.ok() ? nullptr : new Failure(*other.failure_)) {}
  Status(Status&& other) noexcept = default;
  Status& operator=(Status other) noexcept {
    failure_.swap(other.failure_);
    return *this;
  }

  static Status Ok() { return Status(); }

  // Failed; the message is the concatenation of all parts.
  template <typename... Parts>
  static Status Error(const Parts&... parts) {
    return Status(OW_ERROR, detail::Concat(parts...));
  }

  // From Prepare only: unsupported by this kernel; the next one is tried.
  template <typename... Parts>
  static Status Refused(const Parts&... parts) {
    return Status(OW_REFUSED, detail::Concat(parts...));
  }

  // From Prepare only: this machine lacks what the kernel needs; the next one is tried.
  template <typename... Parts>
  static Status Unsupported(const Parts&... parts) {
    return Status(OW_UNSUPPORTED, detail::Concat(parts...));
  }

  // An allocation failed; the message may contain the amount of free memory.
  template <typename... Parts>
  static Status OutOfMemory(const Parts&... parts) {
    return Status(OW_OUT_OF_MEMORY, detail::Concat(parts...));
  }

  bool ok() const { return failure_ == nullptr; }
  int32_t code() const { return ok() ? OW_OK : failure_->code; }
  std::string message() const { return ok() ? std::string() : failure_->message; }

 private:
  struct Failure {
    int32_t code;
    std::string message;
  };
  std::unique_ptr<Failure> failure_;
};

// For code that cannot return a Status, such as the constructor of an attribute struct.
class Exception : public std::runtime_error {
 public:
  template <typename... Parts>
  explicit Exception(const Parts&... parts) : std::runtime_error(detail::Concat(parts...)) {}
};

namespace detail {

// Copies a message into a caller's buffer, truncated between two characters of UTF-8 if it is too
// long.
inline void WriteMessage(const char* text, char* message, uint64_t message_bytes) noexcept {
  if (message == nullptr || message_bytes == 0) return;
  if (text == nullptr) text = "";  // what() of an exception may return NULL
  uint64_t length = std::strlen(text);
  if (length >= message_bytes) {
    length = message_bytes - 1;
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0u) == 0x80u) --length;
  }
  std::memcpy(message, text, length);
  message[length] = '\0';
}

// Runs a function that returns a Status; exceptions become a code and a message.
template <typename Function>
int32_t AtBorder(char* message, uint64_t message_bytes, Function&& function) noexcept {
  try {
    const Status status = function();
    if (status.ok()) return OW_OK;
    WriteMessage(status.message().c_str(), message, message_bytes);
    return status.code();
  } catch (const std::bad_alloc&) {
    WriteMessage("out of memory", message, message_bytes);
    return OW_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    WriteMessage(error.what(), message, message_bytes);
    return OW_ERROR;
  } catch (...) {
    WriteMessage("threw no std::exception", message, message_bytes);
    return OW_ERROR;
  }
}

}  // namespace detail

}  // namespace opwright

// Returns an error from a function that returns a Status, unless the condition is true. The message
// is the concatenation of the further arguments: the rule, and the value that broke it.
#define OPWRIGHT_ENFORCE(condition, ...)                             \
  do {                                                               \
    if (!(condition)) return ::opwright::Status::Error(__VA_ARGS__); \
  } while (false)

// Returns the status of `expression` from a function that returns a Status, unless it is OK.
#define OPWRIGHT_RETURN_IF_ERROR(expression)                                        \
  do {                                                                              \
    if (::opwright::Status opwright_status = (expression); !opwright_status.ok()) { \
      return opwright_status;                                                       \
    }                                                                               \
  } while (false)

#endif  // OPWRIGHT_SDK_STATUS_HPP_
