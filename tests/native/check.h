// A minimal test harness that reports location and values. It has no dependencies and runs under
// any sanitizer.
#ifndef OPWRIGHT_TESTS_CHECK_H_
#define OPWRIGHT_TESTS_CHECK_H_

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/status.h"

namespace check {

struct Test {
  const char* name;
  void (*run)();
};

// main lets each test file append its tests in order, so no static constructors are needed.
using Tests = std::vector<Test>;

[[noreturn]] inline void Fail(const char* file, int line, const std::string& text) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, text.c_str());
  std::exit(1);
}

}  // namespace check

#define CHECK(condition) \
  if (!(condition)) check::Fail(__FILE__, __LINE__, "not true: " #condition)

#define CHECK_EQ(a, b)                                                                           \
  if (!((a) == (b))) {                                                                           \
    check::Fail(__FILE__, __LINE__, opwright::Concat(#a " == " #b ", got ", (a), " and ", (b))); \
  }

// Checks that the statement throws an Error of kind `error_kind` whose message contains `part`.
#define CHECK_THROWS(statement, error_kind, part)                                          \
  do {                                                                                     \
    bool thrown = false;                                                                   \
    try {                                                                                  \
      statement;                                                                           \
    } catch (const opwright::Error& error) {                                               \
      thrown = true;                                                                       \
      CHECK(error.kind() == (error_kind));                                                 \
      if (std::string(error.what()).find(part) == std::string::npos) {                     \
        check::Fail(__FILE__, __LINE__, std::string("no '" part "' in: ") + error.what()); \
      }                                                                                    \
    }                                                                                      \
    if (!thrown) check::Fail(__FILE__, __LINE__, "nothing thrown: " #statement);           \
  } while (false)

#endif  // OPWRIGHT_TESTS_CHECK_H_
