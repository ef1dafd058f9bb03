// Status, the result of a plugin's functions, and the conversion of exceptions into it.
#ifndef OPWRIGHT_SDK_STATUS_HPP_
#define OPWRIGHT_SDK_STATUS_HPP_

#include <cstring>
#include <initializer_list>
#include <locale>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "opwright/abi.h"

// Symbols with state are hidden: two plugins may both have a `Cosine`, and g++ would merge the
// function-local statics of equal names in one process, even between private libraries.
#define OPWRIGHT_LOCAL __attribute__((visibility("hidden")))

// Marks code that runs once for each plan, or after a failure. It is compiled for size and never
// inlined, so it compiles faster.
#define OPWRIGHT_COLD __attribute__((cold, noinline))

namespace opwright {

namespace detail {

// One part of a message, of any type that std::ostream writes.
class MessagePart {
 public:
  template <typename T>
  MessagePart(const T& part)  // NOLINT(google-explicit-constructor)
      : part_(reinterpret_cast<const void*>(&part)), write_(&Write<T>) {}
  MessagePart(const char* text)  // NOLINT(google-explicit-constructor): one for all lengths
      : part_(text), write_(&WriteText) {}

  void WriteTo(std::ostream& text) const { write_(text, part_); }

 private:
  template <typename T>
  OPWRIGHT_COLD static void Write(std::ostream& text, const void* part) {
    text << *reinterpret_cast<const T*>(part);
  }
  OPWRIGHT_COLD static void WriteText(std::ostream& text, const void* part) {
    text << static_cast<const char*>(part);
  }

  const void* part_;
  void (*write_)(std::ostream& text, const void* part);
};

OPWRIGHT_COLD inline std::string JoinParts(std::initializer_list<MessagePart> parts) {
  std::ostringstream text;
  text.imbue(std::locale::classic());  // messages must not depend on the locale
  text << std::boolalpha;
  for (const MessagePart& part : parts) part.WriteTo(text);
  return text.str();
}

// Concatenates the parts of a message as std::ostream writes them.
template <typename... Parts>
std::string Concat(const Parts&... parts) {
  return JoinParts({parts...});
}

}  // namespace detail

// Success, or the reason for a failure. It is as large as a pointer; success does not allocate.
class [[nodiscard]] Status {
 public:
  Status() = default;
  OPWRIGHT_COLD Status(int32_t code, std::string message)
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
    return Failed(OW_ERROR, {parts...});
  }

  // From Prepare only: unsupported by this kernel; the next kernel is tried.
  template <typename... Parts>
  static Status Refused(const Parts&... parts) {
    return Failed(OW_REFUSED, {parts...});
  }

  // From Prepare only: this machine lacks what the kernel needs; the next kernel is tried.
  template <typename... Parts>
  static Status Unsupported(const Parts&... parts) {
    return Failed(OW_UNSUPPORTED, {parts...});
  }

  // An allocation failed; the message may contain the amount of free memory.
  template <typename... Parts>
  static Status OutOfMemory(const Parts&... parts) {
    return Failed(OW_OUT_OF_MEMORY, {parts...});
  }

  bool ok() const { return failure_ == nullptr; }
  int32_t code() const { return ok() ? OW_OK : failure_->code; }
  std::string message() const { return ok() ? std::string() : failure_->message; }

 private:
  struct Failure {
    int32_t code;
    std::string message;
  };
  struct DeleteFailure {
    OPWRIGHT_COLD void operator()(Failure* failure) const { delete failure; }
  };

  OPWRIGHT_COLD static Status Failed(int32_t code,
                                     std::initializer_list<detail::MessagePart> parts) {
    return Status(code, detail::JoinParts(parts));
  }

  std::unique_ptr<Failure, DeleteFailure> failure_;
};

// For code that cannot return a Status, such as the constructor of an attribute struct.
class Exception : public std::runtime_error {
 public:
  template <typename... Parts>
  explicit Exception(const Parts&... parts) : std::runtime_error(detail::JoinParts({parts...})) {}
};

namespace detail {

// Copies a message into a caller's buffer, truncated between two characters of UTF-8 if it is too
// long.
OPWRIGHT_COLD inline void WriteMessage(const char* text, char* message,
                                       uint64_t message_bytes) noexcept {
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

// Writes the message of a failure and returns its code.
OPWRIGHT_COLD inline int32_t ReportFailure(const Status& failure, char* message,
                                           uint64_t message_bytes) {
  WriteMessage(failure.message().c_str(), message, message_bytes);
  return failure.code();
}

// As above, for the exception that is being handled.
OPWRIGHT_COLD inline int32_t ReportException(char* message, uint64_t message_bytes) noexcept {
  try {
    throw;
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

// Runs a function that returns a Status; exceptions become a code and a message.
template <typename Function>
int32_t AtBorder(char* message, uint64_t message_bytes, Function&& function) noexcept {
  try {
    const Status status = function();
    return status.ok() ? OW_OK : ReportFailure(status, message, message_bytes);
  } catch (...) {
    return ReportException(message, message_bytes);
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
